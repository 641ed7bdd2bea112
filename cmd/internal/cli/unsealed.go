package cli

import "path/filepath"

// answers is the directory that caches the log's answers. The download of a
// release without a manifest gets one beside it: its signatures need the answers,
// and the copy can then be verified without a network.
func (o *VerifyRelease) answers() string {
	if o.Log.Evidence != "" || o.unsealed == nil || o.Keep.Download == "" {
		return o.Log.Evidence
	}
	return filepath.Clean(o.Keep.Download) + ".evidence"
}
