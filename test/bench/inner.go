package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Measure does the work and says on w what it took, for a [Command] that
// measures a part of itself: see [Command.Inner].
func Measure(w io.Writer, work func() error) error {
	start, before := time.Now(), spent()
	if err := work(); err != nil {
		return err
	}
	s := Sample{Wall: time.Since(start), CPU: spent() - before}
	if s.CPU <= 0 { // the system does not say
		s.CPU = s.Wall
	}
	return json.NewEncoder(w).Encode(s)
}

// readInner reads what a command said of itself, and nothing else.
func readInner(said []byte) (Sample, error) {
	var s Sample
	if err := json.Unmarshal(said, &s); err != nil {
		return Sample{}, fmt.Errorf("reading what it measured of itself: %w", err)
	}
	if s.Wall <= 0 || s.CPU <= 0 {
		return Sample{}, fmt.Errorf("it measured %v, and %v of CPU", s.Wall, s.CPU)
	}
	return s, nil
}
