package feature

import (
	"bytes"
	"crypto/sha256"
)

// Leader is the reconciler that works on a feature: the one with the highest hash of its
// name and the feature's. Reconcilers that see the same names find the same leader
// without communication. With different names two may act at once; then one of their
// writes is refused. It is "" without identities.
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
