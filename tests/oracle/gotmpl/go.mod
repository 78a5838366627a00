module driftless.dev/oracle/gotmpl

go 1.26.0
