// The one backend that the tests use, instead of those of all clouds, which take minutes to compile.

package init

import (
	"github.com/opentofu/svchost/disco"

	"github.com/opentofu/opentofu/internal/backend"
	"github.com/opentofu/opentofu/internal/backend/local"
	"github.com/opentofu/opentofu/internal/encryption"
)

// RemovedBackends is empty.
var RemovedBackends map[string]string

// Init does nothing: the one backend needs no services.
func Init(*disco.Disco) {}

// Backend returns the backend that keeps the state in a file.
func Backend(name string) (backend.InitFn, string) {
	if name != "local" {
		return nil, name
	}
	return func(enc encryption.StateEncryption) backend.Backend { return local.New(enc) }, name
}
