package attacks

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// retold has builder and release role tell another story about every step, in
// agreement with each other: whoever holds both can.
func (r *attacked) retold(t *testing.T, of func(*provenance.Provenance), in func(*manifest.Manifest)) {
	t.Helper()
	var names []string
	for _, a := range r.manifest(t).Artifacts {
		if a.Class == plan.Provenance {
			r.reattest(t, lab.RoleBuilder, a.Name, of)
			names = append(names, a.Name)
		}
	}
	r.reseal(t, func(m *manifest.Manifest) {
		in(m)
		r.relist(t, m, append(names, plan.ConfigName, plan.LockName)...)
	})
}

// TestGateAgainstACheckout: what agrees with itself is all that a release can
// show; whoever has the source from elsewhere sees whether it is of that
// source.
func TestGateAgainstACheckout(t *testing.T) {
	other := strings.Repeat("0123456789", 4)
	sum := func(t *testing.T, r *attacked, name string) digest.Digest {
		return digest.Of(digest.SHA256, r.read(t, name))
	}
	changed := func(name string) func(t *testing.T, r *attacked) {
		return func(t *testing.T, r *attacked) {
			r.write(t, name, append(r.read(t, name), "# nobody committed this\n"...))
			now := sum(t, r, name)
			r.retold(t, func(p *provenance.Provenance) {
				if name == plan.ConfigName {
					p.BuildDefinition.ExternalParameters.Config.SHA256 = now.Hex()
					return
				}
				for i, d := range p.BuildDefinition.ResolvedDependencies {
					if d.Name == name {
						p.BuildDefinition.ResolvedDependencies[i].Digest["sha256"] = now.Hex()
					}
				}
			}, func(m *manifest.Manifest) {
				*map[string]*digest.Digest{plan.ConfigName: &m.Config, plan.LockName: &m.Lock}[name] = now
			})
		}
	}
	for _, row := range []struct {
		name  string
		do    func(t *testing.T, r *attacked)
		codes []verdict.Code
	}{
		{"as it is", func(*testing.T, *attacked) {}, nil},
		{"told again, and the same", func(t *testing.T, r *attacked) {
			r.retold(t, func(*provenance.Provenance) {}, func(*manifest.Manifest) {})
		}, nil},
		{"another commit", func(t *testing.T, r *attacked) {
			r.retold(t, func(p *provenance.Provenance) {
				for _, d := range p.BuildDefinition.ResolvedDependencies {
					if d.Name == "source" {
						d.Digest["gitCommit"] = other
					}
				}
			}, func(m *manifest.Manifest) { m.Source.Commit = other })
		}, codes(verdict.SourceCommit)},
		{"another release.yaml", changed(plan.ConfigName), codes(verdict.SourceConfig)},
		{"another lock", changed(plan.LockName), codes(verdict.SourceConfig)},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := theWorld(t)
			r := w.attacked(t)
			row.do(t, r)
			accepted(t, r.gate(t).Err()) // by itself, it agrees with itself
			v := r.gate(t, func(q *gate.Request) { q.Options.Checkout.Repository = w.Path("lantern") })
			refused(t, v.Err(), row.codes...)
		})
	}
	t.Run("a checkout that is none", func(t *testing.T) {
		v := theWorld(t).attacked(t).gate(t, func(q *gate.Request) { q.Options.Checkout.Repository = filepath.Join(t.TempDir(), "none") })
		refused(t, v.Err(), verdict.PlaceDown)
	})
}
