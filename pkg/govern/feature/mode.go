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

// Floor is the minimum mode that a signed policy sets for each feature. Features that
// it does not name have none.
type Floor map[Key]Mode

// Of is the minimum mode of a feature.
func (l Floor) Of(k Key) Mode {
	if m, named := l[k]; named {
		return m
	}
	return ModeOff
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

// Mode is what a gate does for one repository. Outside of the scope it is the floor,
// which has no scope: otherwise a narrower scope could bypass the floor. The caller must
// have read the feature: if the store did not answer, nothing is decided.
func (f Feature) Mode(repository string, floor Floor) Mode {
	least := floor.Of(f.Key())
	switch s := f.Status; {
	case s.State == Off:
		return ModeOf(Off, least)
	case s.State == On && Covers(s.Enforced, repository), s.State == TurningOn && Covers(s.Enforced, repository):
		return ModeOf(On, least) // preparing a wider scope does not weaken the enforced one
	case s.State == On:
		return ModeOf(Off, least)
	case s.State == TurningOn || s.State == TurningOff:
		if Covers(s.Preparing, repository) {
			return ModeOf(s.State, least)
		}
		return ModeOf(Off, least)
	}
	return ModeRequire
}
