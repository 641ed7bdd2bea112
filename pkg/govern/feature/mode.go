package feature

// Mode is what a gate does about a requirement.
type Mode string

// The modes, from the least to the strictest.
const (
	ModeOff     Mode = "off"     // ModeOff: not checked.
	ModeWarn    Mode = "warn"    // ModeWarn: a violation is a warning.
	ModeRequire Mode = "require" // ModeRequire: a violation is refused.
)

// rank orders the modes. An unknown mode is the strictest: it must not switch a
// requirement off.
func (m Mode) rank() int {
	switch m {
	case ModeOff:
		return 0
	case ModeWarn:
		return 1
	}
	return 2
}

// Stricter is the stricter of two modes.
func Stricter(a, b Mode) Mode {
	if max(a.rank(), b.rank()) == 2 {
		return ModeRequire
	}
	if a.rank() < b.rank() {
		return b
	}
	return a
}

// ModeOf is the mode of a state inside of the scope, raised to the floor. An unknown
// state requires.
func ModeOf(s State, floor Mode) Mode {
	switch s {
	case Off:
		return Stricter(ModeOff, floor)
	case TurningOn, TurningOff:
		return Stricter(ModeWarn, floor)
	}
	return ModeRequire
}

// Mode is what a gate does for one repository, unless the policy has a floor for the
// feature. The caller must have read the feature: if the store did not answer, nothing
// is decided.
func (f Feature) Mode(repository string) Mode {
	switch s := f.Status; {
	case s.State == On && Covers(s.Enforced, repository), s.State == TurningOn && Covers(s.Enforced, repository):
		return ModeRequire // preparing a wider scope does not weaken the enforced one
	case (s.State == TurningOn || s.State == TurningOff) && Covers(s.Preparing, repository):
		return ModeWarn
	case s.State.IsSteady(), s.State == TurningOn, s.State == TurningOff:
		return ModeOff
	}
	return ModeRequire
}
