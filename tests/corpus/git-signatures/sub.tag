object bda72142f294d17d8c8040213fc81df59d01c103
type commit
tag sub-v1.0.0
tagger Ann <ann@example.com> 1700000000 +0100

Release by sub
-----BEGIN PGP SIGNATURE-----

iHUEABYIAB0WIQQsR0k4vo1SVmarFMhfompY5OFPrQUCZVK4gAAKCRBfompY5OFP
rc47AQDOxdk67/pWfYWNt+Ttj0oM8/l3+WHmE74g5eyEPbl9cwEA3V17FVmWlo+H
TR8p4XoY0TSBHEcbfmRpxRgel1YYags=
=7MHR
-----END PGP SIGNATURE-----
