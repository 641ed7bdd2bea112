package cli

import (
	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
)

// Log are the flags that say where the log entry of a signature in a legacy
// form comes from, where none came along.
type Log struct{ URL, Evidence string }

// AddFlags adds the flags.
func (l *Log) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.URL, "rekor-url", "", "Rekor v1 log to ask when a legacy signature was made, where it does not say")
	f.StringVar(&l.Evidence, "evidence", "", "directory that keeps the log's answers; what is in it need not be asked")
}

// Finder makes what completes such signatures. Without a flag it asks nobody,
// and offline no log answers.
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
