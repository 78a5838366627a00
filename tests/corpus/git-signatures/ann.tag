object 40d3cdd133ae8c269be0dce2c090f5a4aabde8db
type commit
tag ann-v1.0.0
tagger Ann <ann@example.com> 1700000000 +0100

Release by ann
-----BEGIN PGP SIGNATURE-----

iHUEABYIAB0WIQQi6ji7h/Ngwnq3sB4V8szSjbq8jgUCZVK4gAAKCRAV8szSjbq8
jniUAQDbDdMJMsql92NNRigq8MuPPkv49u5x37+IjdPGOb2U5wD/c4c8un45nKEo
3ntdPl2jzaNkYlEVHbRvsy7KxD5jxgA=
=QHeN
-----END PGP SIGNATURE-----
