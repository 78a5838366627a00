object 1d25c8075e5ab33931d21336b44d721f910b4fbf
type commit
tag v1.0.0
tagger Ann <ann@example.com> 1700000000 +0100

Unsigned release
