package feature

import (
	"bytes"
	"crypto/sha256"
)

// Leader is which of several reconcilers tends a feature: the one whose name,
// hashed together with the feature's, is highest. Everybody who sees the same
// names finds the same one, and asks nobody. Who sees others may find another;
// then two act at once, and one of their writes is refused. It is "" of no
// identities.
func Leader(k Key, identities []string) string {
	var leader string
	var highest []byte
	for _, who := range identities {
		sum := sha256.Sum256([]byte(k.String() + "\x00" + who))
		if order := bytes.Compare(sum[:], highest); who != "" && (order > 0 || leader == "") {
			leader, highest = who, sum[:]
		}
	}
	return leader
}
