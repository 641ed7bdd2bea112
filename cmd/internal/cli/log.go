package cli

import (
	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
)

// Log are the flags that say where to find the log entry of a signature in a
// legacy form that carries none.
type Log struct{ URL, Evidence string }

// AddFlags adds the flags.
func (l *Log) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.URL, "rekor-url", "", "Rekor v1 log to search for the signing time of a legacy signature that does not carry its log entry")
	f.StringVar(&l.Evidence, "evidence", "", "directory that caches the log's answers; cached answers are not requested again")
}

// Finder makes the finder of such log entries. Without a flag it makes no request,
// and offline it reaches no log.
func (l *Log) Finder(offline bool) (f rekorv1.Finder, err error) {
	if l.URL != "" {
		if f.Log, err = rekorv1.Open(l.URL, Transport(offline)); err != nil {
			return rekorv1.Finder{}, err
		}
	}
	if l.Evidence != "" {
		if f.Evidence, err = rekorv1.OpenEvidence(l.Evidence); err != nil {
			return rekorv1.Finder{}, err
		}
	}
	return f, nil
}
