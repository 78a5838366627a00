module driftless.dev/oracle/drift

go 1.26.0
