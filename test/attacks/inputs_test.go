package attacks

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// The makers of the base image, who have no role in the release.
const (
	baseSigner  = "keyless@distroless.example.test"
	baseBuilder = "builder@distroless.example.test"
	baseSource  = "git+https://example.test/distroless"
	baseBuilds  = "https://distroless.example.test/builder"
)

// based is a sealed release whose base image is in a place of its own.
type based struct {
	*attacked
	remote *registry.Remote
	host   string // of the image, as provenance names it
	place  string
	base   registry.Descriptor
	rows   string // of inputs, in the policy
}

// based copies the base image, without any evidence, and has the provenance of
// a release name the copy.
func (w *world) based(t *testing.T, host, place string) based {
	t.Helper()
	r := w.attacked(t)
	pin := must[plan.Lock](t)(plan.ParseLock(r.read(t, plan.LockName))).Bases["static"]
	open := func(place string) *registry.Remote {
		return must[*registry.Remote](t)(registry.OpenRemote(w.Lab.Registry+"/"+place, http.DefaultTransport))
	}
	b := based{attacked: r, remote: open(place), host: host, place: place}
	b.base = must[registry.Descriptor](t)(open("base").Resolve(t.Context(), "static", pin.Digest.String()))
	must[registry.Copied](t)(registry.Copy(t.Context(), b.remote, open("base"), "static", b.base))
	r.retold(t, func(p *provenance.Provenance) {
		for i, d := range p.BuildDefinition.ResolvedDependencies {
			if d.Name == "base static" {
				p.BuildDefinition.ResolvedDependencies[i].URI = "oci://" + b.address() + "@" + pin.Digest.String()
			}
		}
	}, func(*manifest.Manifest) {})
	who := func(name string) string {
		issuer, subject := w.Lab.Identity(name)
		return fmt.Sprintf("{issuer: %q, subject: %q, type: email}", issuer, subject)
	}
	b.rows = fmt.Sprintf("inputs:\n- image: %q\n  signers: [%s]\n  builders: [{id: %q, level: 3, signers: [%s]}]\n  source: {repository: %q}\n  checks: {signature: require, provenance: require}\n  level: 2\n",
		b.address(), who(baseSigner), baseBuilds, who(baseBuilder), baseSource)
	return b
}

// address is HOST/REPOSITORY of the base image.
func (b based) address() string { return b.host + "/" + b.place + "/static" }

// signed attaches a signature of an image to the base image.
func (b based) signed(t *testing.T, by string, of digest.Digest) {
	t.Helper()
	st := must[intoto.Statement](t)(intoto.New(intoto.CosignSignature, []intoto.Subject{{Digests: digest.Set{SHA256: of}}}, struct{}{}))
	b.attachTo(t, intoto.CosignSignature, b.sign(t, by, st.Raw()))
}

// built attaches provenance of an image to the base image.
func (b based) built(t *testing.T, by string, of digest.Digest, edit func(*provenance.Provenance)) {
	t.Helper()
	b.attachTo(t, provenance.PredicateType, b.provenanceOf(t, by, of, edit))
}

// provenanceOf is provenance by the builder of the base image.
func (b based) provenanceOf(t *testing.T, by string, of digest.Digest, edit func(*provenance.Provenance)) []byte {
	t.Helper()
	said := must[provenance.Provenance](t)(provenance.Parse(b.statement(t, compiled)))
	said.Subjects = []intoto.Subject{{Name: "static", Digests: digest.Set{SHA256: of}}}
	was := said.BuildDefinition.ExternalParameters.Config.Repository
	said.RunDetails.Builder.ID = baseBuilds
	said.BuildDefinition.ExternalParameters.Config.Repository = baseSource
	said.BuildDefinition.InternalParameters.Isolation = "isolated"
	for i, d := range said.BuildDefinition.ResolvedDependencies {
		said.BuildDefinition.ResolvedDependencies[i].URI = strings.Replace(d.URI, was, baseSource, 1)
	}
	edit(&said)
	st := must[intoto.Statement](t)(provenance.Encode(said.Subjects, said.Predicate))
	return b.sign(t, by, st.Raw())
}

func (b based) attachTo(t *testing.T, kind string, bundle []byte) {
	t.Helper()
	d, raw, blobs := registry.BundleManifest(b.base, bundle, kind)
	accepted(t, registry.Parcel{Descriptor: d, Raw: raw, Blobs: blobs}.PushTo(t.Context(), b.remote, "static"))
}

// decide asks the gate of a profile whose policy has the rows, with changes. A
// change of nothing to closed closes the inputs.
func (b based) decide(t *testing.T, change []string, require string) *verdict.Verdict {
	t.Helper()
	p, rows := b.profile, b.rows
	text := must[[]byte](t)(os.ReadFile(b.Path("policy.yaml")))
	for i := 0; i < len(change); i += 2 {
		if change[i] == "" {
			text = replaceOne(t, text, "images: require}", "images: require, inputs: require}")
		} else {
			rows = string(replaceOne(t, []byte(rows), change[i], change[i+1]))
		}
	}
	p.Policy = must[policy.Policy](t)(policy.Parse(replaceOne(t, text, "source: {", rows+"source: {"), nil))
	return b.gate(t, func(q *gate.Request) {
		*q = b.under(p).Release(q.Version, profile.Release, gate.Places{Files: q.Files, Images: q.Images}, q.Now)
		if require != "" {
			q.Options.Scope.Levels = append(q.Options.Scope.Levels, must[slsa.Demand](t)(slsa.ParseDemand(require)))
		}
	})
}

// TestInputsOfARelease: the base image of a release is signed and built by those
// that the policy lists, and its level limits that of the image. With one fact
// changed it is refused.
func TestInputsOfARelease(t *testing.T) {
	w := theWorld(t)
	same := func(*provenance.Provenance) {}
	other := digest.Of(digest.SHA256, []byte("another image"))
	good := func(t *testing.T, b based) {
		b.signed(t, baseSigner, b.base.Digest)
		b.built(t, baseBuilder, b.base.Digest, same)
	}
	for n, row := range []struct {
		name    string
		do      func(t *testing.T, b based)
		change  []string // of the rows in the policy
		require string
		code    verdict.Code
		about   string // the subject, if not the base image
		says    string
	}{
		{"signed and built by those that the policy lists", good, nil, "build=2", "", "", ""},
		{"not signed", func(t *testing.T, b based) { b.built(t, baseBuilder, b.base.Digest, same) }, nil, "build=1", verdict.Unsigned, "", "no signature"},
		{"without provenance", func(t *testing.T, b based) { b.signed(t, baseSigner, b.base.Digest) }, nil, "", verdict.NoProvenance, "", "no provenance"},
		{"signed by a stranger", func(t *testing.T, b based) {
			b.signed(t, "mallory@evil.example", b.base.Digest)
			b.built(t, baseBuilder, b.base.Digest, same)
		}, nil, "", verdict.Identity, "", "not listed"},
		{"signed by the release identity", func(t *testing.T, b based) {
			b.signed(t, lab.RoleRelease, b.base.Digest)
			b.built(t, baseBuilder, b.base.Digest, same)
		}, nil, "", verdict.Identity, "", "not listed"},
		{"signed by its builder", func(t *testing.T, b based) {
			b.signed(t, baseBuilder, b.base.Digest)
			b.built(t, baseBuilder, b.base.Digest, same)
		}, nil, "", verdict.IdentityRole, "", "builder identity"},
		{"with the signature of another image", func(t *testing.T, b based) {
			b.signed(t, baseSigner, other)
			b.built(t, baseBuilder, b.base.Digest, same)
		}, nil, "", verdict.NotBound, "", "another artifact"},
		{"with the provenance of another image", func(t *testing.T, b based) {
			b.signed(t, baseSigner, b.base.Digest)
			b.built(t, baseBuilder, other, same)
		}, nil, "", verdict.NotBound, "", "another artifact"},
		{"built from another source", good, []string{baseSource, baseSource + "-fork"}, "", verdict.SourceRepo, "", "another repository"},
		{"built by another builder", func(t *testing.T, b based) {
			b.signed(t, baseSigner, b.base.Digest)
			b.built(t, baseBuilder, b.base.Digest, func(p *provenance.Provenance) { p.RunDetails.Builder.ID += "2" })
		}, nil, "", verdict.Builder, "", "may not sign"},
		{"below the level of the row", good, []string{"level: 3,", "level: 1,"}, "", verdict.Level, "", "build=1"},
		{"at the level of the row", good, []string{"level: 3,", "level: 1,", "level: 2", "level: 1"}, "build=1", "", "", ""},
		{"below the level of the release", good, []string{"level: 3,", "level: 1,", "level: 2", "level: 1"}, "build=2", verdict.Level, imageName, "made of"},
		{"without a level in the row", good, []string{"level: 3,", "level: 1,", "  level: 2\n", ""}, "build=2", "", "", ""},
		{"below a path of the row", good, []string{"/static", "/"}, "build=2", "", "", ""},
		{"named by no row", good, []string{"/static", "/stat"}, "build=2", "", "", ""},
		{"named by no row, where inputs are closed", good, []string{"/static", "/stat", "", "closed"}, "", verdict.Extra, "", "base static was used"},
		{"named by a row, where inputs are closed", good, []string{"", "closed"}, "", verdict.Extra, "tool go", "tool go was used"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := w.based(t, w.Lab.Registry, fmt.Sprintf("inputs-%d", n))
			row.do(t, b)
			v := b.decide(t, row.change, row.require)
			if at := slices.IndexFunc(v.Proofs, func(p verdict.Proof) bool { return strings.HasPrefix(p.Subject, b.address()) && p.Role != "input" }); at >= 0 {
				t.Errorf("the signer of an input has a role in the release: %+v", v.Proofs[at])
			}
			if row.code == "" {
				accepted(t, v.Err())
				return
			}
			observe(t, row.code)
			if row.about == "" {
				row.about = b.address() + "@" + b.base.Digest.String()
			}
			at := slices.IndexFunc(v.Findings, func(f verdict.Finding) bool { return f.Code == row.code && strings.HasPrefix(f.Subject, row.about) })
			if at < 0 || !strings.Contains(v.Findings[at].Message+v.Findings[at].Got, row.says) {
				t.Fatalf("%s", explain(v.Err()))
			}
			if row.says == "made of" && !strings.Contains(v.Findings[at].Message, b.address()+"@"+b.base.Digest.String()) {
				t.Errorf("the base image is not named: %s", v.Findings[at].Message)
			}
		})
	}
}

// TestToolsOfARelease: the evidence about a program is where the policy says,
// by the program's digest. With it, closed inputs are complete.
func TestToolsOfARelease(t *testing.T) {
	b := theWorld(t).based(t, theWorld(t).Lab.Registry, "inputs-tools")
	b.signed(t, baseSigner, b.base.Digest)
	b.built(t, baseBuilder, b.base.Digest, func(*provenance.Provenance) {})
	tools := map[string]string{} // of the provenance, by digest
	for _, name := range []string{compiled, alsoBuilt} {
		said := must[provenance.Provenance](t)(provenance.Parse(b.statement(t, name)))
		for _, d := range said.BuildDefinition.ResolvedDependencies {
			if tool, is := strings.CutPrefix(d.Name, "tool "); is {
				tools[d.Digest["sha256"]] = tool
			}
		}
	}
	of := func(t *testing.T, sum string) digest.Digest {
		return must[digest.Digest](t)(digest.ParseHex(digest.SHA256, sum))
	}
	served, broken := map[string][]byte{}, false
	for sum := range tools {
		served["/"+sum+".sigstore.json"] = b.provenanceOf(t, baseBuilder, of(t, sum), func(*provenance.Provenance) {})
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, there := served[r.URL.Path]
		switch {
		case broken:
			w.WriteHeader(http.StatusForbidden)
		case !there:
			http.NotFound(w, r)
		default:
			_, _ = w.Write(body)
		}
	}))
	defer server.Close()
	issuer, subject := b.Lab.Identity(baseBuilder)
	names := slices.Compact(slices.Sorted(maps.Values(tools)))
	for _, name := range names {
		b.rows += fmt.Sprintf("- tool: %s\n  bundles: [%q]\n  builders: [{id: %q, level: 2, signers: [{issuer: %q, subject: %q, type: email}]}]\n  source: {repository: %q}\n  checks: {signature: \"off\", provenance: require}\n",
			name, server.URL+"/{sha256}.sigstore.json", baseBuilds, issuer, subject, baseSource)
	}
	closed := []string{"", "closed"}
	accepted(t, b.decide(t, closed, "build=2").Err())
	for sum := range tools {
		address := "/" + sum + ".sigstore.json"
		good := served[address]
		delete(served, address)
		refused(t, b.decide(t, closed, "").Err(), verdict.NoProvenance)
		served[address] = b.provenanceOf(t, "mallory@evil.example", of(t, sum), func(*provenance.Provenance) {})
		refused(t, b.decide(t, closed, "").Err(), verdict.Identity)
		served[address] = b.provenanceOf(t, baseBuilder, b.base.Digest, func(*provenance.Provenance) {})
		refused(t, b.decide(t, closed, "").Err(), verdict.NotBound)
		served[address] = good
		break
	}
	broken = true
	refused(t, b.decide(t, closed, "").Err(), verdict.PlaceDown)
	broken = false
	accepted(t, b.decide(t, closed, "").Err())
}

// TestInputsThatCannotBeReached: a registry that does not answer is neither
// accepted nor refused, and nothing where no row names the image.
func TestInputsThatCannotBeReached(t *testing.T) {
	b := theWorld(t).based(t, "127.0.0.1:1", "inputs-down")
	v := b.decide(t, nil, "build=2")
	refused(t, v.Err(), verdict.PlaceDown)
	if v.Outcome() != verdict.Unavailable {
		t.Errorf("%s", v.Headline())
	}
	accepted(t, b.decide(t, []string{"/static", "/stat"}, "build=2").Err())
}
