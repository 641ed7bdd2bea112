//go:build !unix

package bench

import (
	"os"
	"time"
)

// spent is not known here.
func spent() time.Duration { return 0 }

// Peak is not known here.
func Peak(*os.ProcessState) int64 { return 0 }
