raise SystemExit("a package of another project was imported")
