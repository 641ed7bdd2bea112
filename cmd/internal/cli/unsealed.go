package cli

import "path/filepath"

// answers is the directory that keeps the log's answers. A download of a
// release whose signatures need them has one beside it, so that its copy can be
// verified without a network.
func (o *VerifyRelease) answers() string {
	if o.Log.Evidence != "" || o.unsealed == nil || o.Keep.Download == "" {
		return o.Log.Evidence
	}
	return filepath.Clean(o.Keep.Download) + ".evidence"
}
