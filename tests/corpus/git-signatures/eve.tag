object 643e6eecefacc2b3c007218e33a9d4a2a6ea079e
type commit
tag eve-v1.0.0
tagger Ann <ann@example.com> 1700000000 +0100

Release by eve
-----BEGIN PGP SIGNATURE-----

iHUEABYIAB0WIQRT6irfPghpRT+SwdgTRxGAqnVSigUCZVK4gAAKCRATRxGAqnVS
igekAQCu6QP/9xwv/uO3JRRKZk7CdAnK93b9Mu6iF+6fyxyOgAEArGrSbTKEI4CI
fWYJY9WxB6+8Hu9Y4ne4fMowXC/gRAg=
=PSsn
-----END PGP SIGNATURE-----
