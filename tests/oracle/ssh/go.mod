module driftless.test/ssh

go 1.26.0

require golang.org/x/crypto v0.53.0

require golang.org/x/sys v0.46.0 // indirect
