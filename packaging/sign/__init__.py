"""Makes and checks signatures of Mach-O files, frameworks and whole bundles, without a Mac."""
