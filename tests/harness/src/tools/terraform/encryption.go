// No encryption of states, instead of the key services of all clouds, which take minutes to compile.

package encryption

import "github.com/opentofu/opentofu/internal/encryption/registry/lockingencryptionregistry"

// DefaultRegistry is empty: no state is encrypted.
var DefaultRegistry = lockingencryptionregistry.New()
