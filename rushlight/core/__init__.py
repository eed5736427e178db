"""What everything else stands on: dtypes, devices, sizes, promotion, modes, errors, pytrees."""
