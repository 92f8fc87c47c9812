# below
