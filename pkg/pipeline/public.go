package pipeline

import (
	"context"
	"errors"
	"slices"

	"github.com/waybill-release/waybill/pkg/doctor"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// newVersion is the next act where a version is spent.
const newVersion = "what is public never changes, so release a new version: tag it, then waybill stage it"

// examinePublic looks whether the version is public already. What another run
// released under it no promotion would write over, so nothing is built for it. A
// place that does not answer says nothing.
func (p checkup) examinePublic() doctor.Ask {
	const name = "version"
	return func(ctx context.Context) []doctor.Check {
		at, err := p.filesAt(profile.Release)
		if err != nil {
			return []doctor.Check{doctor.Fault(name, err)}
		}
		m, _, err := p.manifest(ctx, at)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return []doctor.Check{doctor.Fine(name, "%s is not public yet", p.Version)}
		case err != nil:
			return []doctor.Check{doctor.Doubt(name, "look at what lies there before the promotion, which writes over nothing", "not known whether %s is public: %v", p.Version, err)}
		case m.Version != p.Version:
			return []doctor.Check{doctor.Doubt(name, "look at the profile's release place", "%s holds the manifest of %s", at.URI(), m.Version)}
		case m.Withdrawn != nil:
			return []doctor.Check{doctor.Fault(name, verdict.Refuse(verdict.Withdrawn, at.URI(), "%s is public and was withdrawn: %s", p.Version, m.Withdrawn.Reason).Advise(newVersion))}
		case !isOf(m, p.invocationHere()):
			return []doctor.Check{doctor.Fault(name, verdict.Refuse(verdict.FileConflict, at.URI(),
				"%s is public, of commit %.12s, and another run than the one in %s made it", p.Version, m.Source.Commit, p.State).
				Advise(newVersion+"; or give the --state of the run that made it"))}
		}
		return []doctor.Check{doctor.Fine(name, "%s is public, of this very run: what holds is taken over", p.Version)}
	}
}

// isOf reports whether a run made a release.
func isOf(m release.Manifest, run string) bool {
	return slices.ContainsFunc(m.Runs, func(r release.Run) bool { return r.ID == run })
}
