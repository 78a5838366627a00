object 08ea4d6ff48542e9fe551b6e459fdc2c1b968972
type commit
tag rev-v1.0.0
tagger Ann <ann@example.com> 1700000000 +0100

Release by rev
-----BEGIN PGP SIGNATURE-----

iHUEABYIAB0WIQRI12hCWuv7Ak11wCCcXxKKTIxxtwUCZVK4gAAKCRCcXxKKTIxx
t9bYAQCzriLybcuQhdk9nAlvmt+Quh+T8vEJShUL749WT9X8SQEAweEA3fjlUeKC
+YKFdqQ3sUFcX6z982RLelA2nk9jlQo=
=4vZN
-----END PGP SIGNATURE-----
