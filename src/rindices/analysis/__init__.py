"""Statistics of R-indices: functions of data frames that return tables, and their files and figures."""
