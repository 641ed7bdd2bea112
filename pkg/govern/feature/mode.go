package feature

// Mode is what a gate does about what a feature demands.
type Mode string

// The modes, from the least to the strictest.
const (
	ModeOff     Mode = "off"     // ModeOff: it is not looked at.
	ModeWarn    Mode = "warn"    // ModeWarn: what is missing is said.
	ModeRequire Mode = "require" // ModeRequire: what is missing is refused.
)

// rank orders the modes. What is no mode is the strictest: a word that we do not
// know must not switch anything off.
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

// Floor is the least that a signed policy demands, by feature. What it does not
// name has none.
type Floor map[Key]Mode

// Of is the least mode of a feature.
func (l Floor) Of(k Key) Mode {
	if m, named := l[k]; named {
		return m
	}
	return ModeOff
}

// ModeOf is what a state means where the feature counts, raised to the floor.
// A state that is none of the four requires.
func ModeOf(s State, floor Mode) Mode {
	switch s {
	case Off:
		return Stricter(ModeOff, floor)
	case TurningOn, TurningOff:
		return Stricter(ModeWarn, floor)
	}
	return ModeRequire
}

// Mode is what a gate does about one repository. Outside the scope of the
// feature it is the floor, which knows no scope: whoever can narrow a scope
// could else switch off what the floor is for. The caller has read the feature
// from a store that answered; when none did, nothing is known, and nothing is
// decided.
func (f Feature) Mode(repository string, floor Floor) Mode {
	least := floor.Of(f.Key())
	switch s := f.Status; {
	case s.State == Off:
		return ModeOf(Off, least)
	case s.State == On && Covers(s.Enforced, repository), s.State == TurningOn && Covers(s.Enforced, repository):
		return ModeOf(On, least) // a wider scope that is being prepared takes nothing back
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
