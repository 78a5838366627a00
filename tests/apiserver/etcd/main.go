// The real etcd server. `go install` refuses its module (replace directives),
// so it is built from a module of our own.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
