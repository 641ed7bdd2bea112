package verdict

import (
	"errors"
	"io/fs"
	"slices"
)

// For returns f with the next act of an audience. An act that was chosen by the
// cause of the finding stays.
func (f Finding) For(a Audience) Finding {
	if f.Fix == f.Code.Fix() {
		f.Fix = f.Code.NextAct(a)
	}
	return f
}

// For returns v with the next acts of an audience.
func (v Verdict) For(a Audience) Verdict {
	v.Findings, v.Warnings, v.Waived = slices.Clone(v.Findings), slices.Clone(v.Warnings), slices.Clone(v.Waived)
	for i, f := range v.Findings {
		v.Findings[i] = f.For(a)
	}
	for i, f := range v.Warnings {
		v.Warnings[i] = f.For(a)
	}
	for i, w := range v.Waived {
		v.Waived[i].Finding = w.Finding.For(a)
	}
	return v
}

// checkPath is the next act if a file of this machine cannot be read or written.
const checkPath = "check that the path exists, that this user may read and write it, and that the disk works; nothing was decided"

// because gives a finding that something is missing or unavailable the next act
// of its cause: an error of the chain names one by a method NextAct, or is about
// a file of this machine.
func (f Finding) because(cause error) Finding {
	down := f.Code.Outcome() == Unavailable
	if !down && f.Code != Missing {
		return f
	}
	var knows interface{ NextAct() string }
	var file *fs.PathError
	switch {
	case errors.As(cause, &knows):
		f.Fix = knows.NextAct()
	case down && errors.As(cause, &file):
		f.Fix = checkPath
	}
	return f
}
