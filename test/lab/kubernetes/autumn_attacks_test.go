package kubernetes_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab/kubernetes"
)

// provenance signs the provenance of the files again, after a change.
func provenance(as string, change func(r *kubernetes.Release, build, run map[string]any)) func(*testing.T, *question) {
	return func(t *testing.T, q *question) {
		predicate := q.release.Provenance()
		if change != nil {
			change(q.release, predicate["buildDefinition"].(map[string]any), predicate["runDetails"].(map[string]any))
		}
		if err := q.release.SignProvenance(q.w.signer, as, predicate); err != nil {
			t.Fatal(err)
		}
	}
}

// provenanceOf signs provenance whose subjects were changed.
func provenanceOf(change func([]kubernetes.Subject) []kubernetes.Subject) func(*testing.T, *question) {
	return func(t *testing.T, q *question) {
		made, err := q.w.signer.Statement(kubernetes.Staging, kubernetes.KindProvenance, q.release.Provenance(), change(q.release.Subjects())...)
		if err != nil {
			t.Fatal(err)
		}
		q.release.Files[k8slayout.Provenance] = made.Bundle
	}
}

func parameter(name string, value any) func(*kubernetes.Release, map[string]any, map[string]any) {
	return func(_ *kubernetes.Release, build, _ map[string]any) {
		build["externalParameters"].(map[string]any)[name] = value
	}
}

// TestAutumnProvenance changes one fact about the signed provenance of the
// files a row.
func TestAutumnProvenance(t *testing.T) {
	w := theWorld(t)
	const refused = " provenance.json"
	for _, c := range []struct {
		name   string
		change func(t *testing.T, q *question)
		want   string
	}{
		{"as it is", func(*testing.T, *question) {}, ""},
		{"signed again by the right account", provenance(kubernetes.Staging, nil), ""},
		{"signed by a stranger", provenance("stranger@example.test", nil), "IDENTITY" + refused},
		{"signed by the account for images", provenance(kubernetes.Trust, nil), "IDENTITY_ROLE" + refused},
		{"signed by the account for summaries", provenance(kubernetes.Summaries, nil), "IDENTITY_ROLE" + refused},
		{"of another builder", provenance(kubernetes.Staging, func(_ *kubernetes.Release, _, run map[string]any) {
			run["builder"] = map[string]any{"id": "https://cloudbuild.googleapis.com/GoogleHostedWorker"}
		}), "BUILDER" + refused},
		{"of another build type", provenance(kubernetes.Staging, func(_ *kubernetes.Release, build, _ map[string]any) {
			build["buildType"] = "https://git.k8s.io/release/docs/krel/buildtypes/v0"
		}), "BUILD_TYPE" + refused},
		{"of another repository", provenance(kubernetes.Staging, func(_ *kubernetes.Release, build, _ map[string]any) {
			build["resolvedDependencies"] = []any{map[string]any{"uri": "git+https://github.com/stranger/kubernetes", "digest": map[string]string{"gitCommit": strings.Repeat("5", 40)}}}
		}), "SOURCE_REPOSITORY" + refused},
		{"of a mock build", provenance(kubernetes.Staging, parameter("nomock", false)), "PARAM_VALUE" + refused},
		{"by another Cloud Build file", provenance(kubernetes.Staging, parameter("entryPoint", "https://example.test/cloudbuild.yaml")), "PARAM_VALUE" + refused},
		{"with a parameter that the build type got later", provenance(kubernetes.Staging, parameter("later", "x")), ""},
		{"of an older version", provenanceOf(func(all []kubernetes.Subject) []kubernetes.Subject {
			for i := range all {
				all[i].Name = strings.Replace(all[i].Name, "/v1.31.2/", "/v1.31.1/", 1)
			}
			return all
		}), "VERSION" + refused},
		{"it gives other bytes", provenanceOf(func(all []kubernetes.Subject) []kubernetes.Subject {
			i := slices.IndexFunc(all, func(s kubernetes.Subject) bool { return strings.HasSuffix(s.Name, kubectl) })
			all[i].Digest = digest.SetOf([]byte("x")).Map()
			return all
		}), "EVIDENCE_CONFLICT " + kubectl},
		{"it omits a file", provenanceOf(func(all []kubernetes.Subject) []kubernetes.Subject {
			return slices.DeleteFunc(all, func(s kubernetes.Subject) bool { return strings.HasSuffix(s.Name, kubectl) })
		}), "EVIDENCE_CONFLICT " + kubectl},
		{"it names a file that is not there", provenanceOf(func(all []kubernetes.Subject) []kubernetes.Subject {
			return append(all, kubernetes.Subject{Name: strings.Replace(all[0].Name, "bin/", "bin2/", 1), Digest: all[0].Digest})
		}), "EVIDENCE_CONFLICT bin2/"},
		{"a byte of it is changed", func(_ *testing.T, q *question) {
			raw := bytes.Clone(q.release.Files[k8slayout.Provenance])
			i := bytes.Index(raw, []byte(`"payload":"`)) + len(`"payload":"`) + 400
			raw[i] = map[bool]byte{true: 'b', false: 'a'}[raw[i] == 'a']
			q.release.Files[k8slayout.Provenance] = raw
		}, "LOG_ENTRY_UNBOUND provenance.json"},
		{"its signature is gone", func(_ *testing.T, q *question) {
			raw := q.release.Files[k8slayout.Provenance]
			i := bytes.Index(raw, []byte(`"signatures"`))
			q.release.Files[k8slayout.Provenance] = append(bytes.Clone(raw[:i]), []byte(`"signatures":[]}}`)...)
		}, "SIG_COUNT" + refused},
		{"unsigned, as of before", func(_ *testing.T, q *question) { q.release.Document(); signDocuments(q) }, ""},
		{"a file that the SBOM leaves out, which it names", func(t *testing.T, q *question) {
			q.release.Archiveless = true
			redocument(q)
			provenanceOf(func(all []kubernetes.Subject) []kubernetes.Subject {
				for _, name := range q.release.Names() {
					if strings.HasSuffix(name, ".tar") {
						all = append(all, kubernetes.Subject{Name: strings.TrimSuffix(all[0].Name, first(q)) + name, Digest: digest.SetOf(q.release.Files[name]).Map()})
					}
				}
				return all
			})(t, q)
		}, ""},
		{"a file that the SBOM leaves out, and so does it", func(t *testing.T, q *question) {
			q.release.Archiveless = true
			redocument(q)
			provenance(kubernetes.Staging, nil)(t, q)
		}, "20 VERSION_UNBOUND"},
		{"provenance of images beside", func(t *testing.T, q *question) { imageProvenance(t, q, kubernetes.Staging) }, ""},
		{"provenance of images by a stranger beside", func(t *testing.T, q *question) { imageProvenance(t, q, "stranger@example.test") }, "IDENTITY image-provenance.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := w.ask(t, func(q *question) {
				q.release, q.Options.Scope.Only = theAutumn(t, w).Clone(), policy.Files
				c.change(t, q)
			})
			if got := summed(v); got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
				t.Errorf("got  %s\nwant %s: %v", got, c.want, v.Findings)
			}
		})
	}
}

// first is the first file that provenance names.
func first(q *question) string {
	name := q.release.Subjects()[0].Name
	return name[strings.Index(name, "/v1.31.2/")+len("/v1.31.2/"):]
}

func signDocuments(q *question) { sign(q, k8slayout.ReleaseSBOM, k8slayout.SourceSBOM) }

func imageProvenance(t *testing.T, q *question, as string) {
	made, err := q.w.signer.Statement(as, kubernetes.KindProvenance, q.release.Provenance(), kubernetes.Subject{Name: "gcr.io/k8s-staging-kubernetes/kube-proxy", Digest: digest.SetOf([]byte("x")).Map()})
	if err != nil {
		t.Fatal(err)
	}
	q.release.Files[k8slayout.ImageProvenance] = made.Bundle
}

// summary puts summaries in the place of the one of kube-proxy's index.
func summary(as string, change ...func(*kubernetes.Summary)) func(*testing.T, *question, *kubernetes.Manifest) {
	return func(t *testing.T, q *question, m *kubernetes.Manifest) {
		m.Referring["kube-proxy"] = slices.DeleteFunc(slices.Clone(m.Referring["kube-proxy"]), func(r kubernetes.Referring) bool { return r.Kind == kubernetes.KindSummary })
		for _, one := range change {
			s := kubernetes.NewSummary("kube-proxy", m.Descriptor.Digest)
			one(&s)
			made, err := s.Sign(q.w.signer, as)
			if err != nil {
				t.Fatal(err)
			}
			m.Referring["kube-proxy"] = append(m.Referring["kube-proxy"], made)
		}
	}
}

// TestAutumnSummaries changes one fact about what refers to an image a row.
func TestAutumnSummaries(t *testing.T) {
	w := theWorld(t)
	passed := func(*kubernetes.Summary) {}
	failed := func(s *kubernetes.Summary) { s.Failed = true }
	before := func(s *kubernetes.Summary) { s.Failed, s.At = true, s.At.Add(-time.Hour) }
	other := digest.Of(digest.SHA256, []byte("an image of v1.31.1"))
	of := func(d digest.Digest) func(*kubernetes.Summary) { return func(s *kubernetes.Summary) { s.Digest = d } }
	refer := func(as, kind string, about func(*kubernetes.Manifest) digest.Digest) func(*testing.T, *question, *kubernetes.Manifest) {
		return func(t *testing.T, q *question, m *kubernetes.Manifest) {
			made, err := q.w.signer.Statement(as, kind, q.release.Provenance(), kubernetes.Subject{Name: "x", Digest: map[string]string{"sha256": about(m).Hex()}})
			if err != nil {
				t.Fatal(err)
			}
			m.Referring["kube-proxy"] = slices.DeleteFunc(slices.Clone(m.Referring["kube-proxy"]), func(r kubernetes.Referring) bool { return r.Kind == kind })
			m.Referring["kube-proxy"] = append(m.Referring["kube-proxy"], made)
		}
	}
	itself := func(m *kubernetes.Manifest) digest.Digest { return m.Descriptor.Digest }
	another := func(*kubernetes.Manifest) digest.Digest { return other }
	for _, c := range []struct {
		name   string
		change func(t *testing.T, q *question, m *kubernetes.Manifest)
		want   string
	}{
		{"one that PASSED", summary(kubernetes.Summaries, passed), ""},
		{"none", summary(kubernetes.Summaries), ""},
		{"one that FAILED, as in the mode warn", summary(kubernetes.Summaries, failed), "VSA_RESULT oci/kube-proxy"},
		{"one that FAILED and one that PASSED", summary(kubernetes.Summaries, failed, passed), "VSA_RESULT oci/kube-proxy"},
		{"one that FAILED before one that PASSED", summary(kubernetes.Summaries, before, passed), "VSA_RESULT oci/kube-proxy"},
		{"of another digest", summary(kubernetes.Summaries, of(other)), "NOT_BOUND oci/kube-proxy"},
		{"of another digest, beside the right one", summary(kubernetes.Summaries, of(other), passed), ""},
		{"by the account for images", summary(kubernetes.Trust, passed), "IDENTITY_ROLE oci/kube-proxy"},
		{"by the staging account", summary(kubernetes.Staging, passed), "IDENTITY_ROLE oci/kube-proxy"},
		{"by a stranger, that FAILED", summary("stranger@example.test", failed), ""},
		{"of another verifier", summary(kubernetes.Summaries, func(s *kubernetes.Summary) { s.Verifier = "https://example.test/verifier" }), "VSA_VERIFIER oci/kube-proxy"},
		{"by the manifest of another project", summary(kubernetes.Summaries, func(s *kubernetes.Summary) {
			s.Policy = strings.Replace(s.Policy, "k8s-staging-kubernetes", "k8s-staging-sp-operator", 1)
		}), "VSA_POLICY oci/kube-proxy"},
		{"of another repository", summary(kubernetes.Summaries, func(s *kubernetes.Summary) { s.Repository = "kube-apiserver" }), "VSA_RESOURCE oci/kube-proxy"},
		{"with words that are no level", summary(kubernetes.Summaries, func(s *kubernetes.Summary) { s.Levels = []string{"K8S_ANYTHING", "K8S_PROMOTION_MANIFEST_REVIEWED"} }), ""},
		{"with a level of SLSA that there is not", summary(kubernetes.Summaries, func(s *kubernetes.Summary) { s.Levels = []string{"SLSA_BUILD_LEVEL_HIGH"} }), "PAYLOAD_PARSE oci/kube-proxy"},
		{"provenance by the right account", refer(kubernetes.Staging, kubernetes.KindProvenance, itself), ""},
		{"provenance by the account for images", refer(kubernetes.Trust, kubernetes.KindProvenance, itself), "IDENTITY_ROLE oci/kube-proxy"},
		{"provenance of an image of an older version", refer(kubernetes.Staging, kubernetes.KindProvenance, another), "NOT_BOUND oci/kube-proxy"},
		{"provenance by a stranger", refer("stranger@example.test", kubernetes.KindProvenance, itself), ""},
		{"a scan by a stranger", refer("stranger@example.test", kubernetes.KindScan, itself), ""},
		{"something that is no bundle", func(_ *testing.T, _ *question, m *kubernetes.Manifest) {
			m.Referring["kube-proxy"] = append(slices.Clone(m.Referring["kube-proxy"]), kubernetes.Referring{Kind: kubernetes.KindSummary, Bundle: []byte("{}")})
		}, ""},
		{"no list of what refers to it", func(t *testing.T, q *question, m *kubernetes.Manifest) {
			q.images = unreferred{push(t, q.release), m.Descriptor.Digest}
		}, "down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := w.ask(t, func(q *question) {
				q.release = theAutumn(t, w).Clone()
				q.Options.Scope.Only, q.Options.Scope.Platform = policy.Images, "linux/amd64"
				c.change(t, q, q.release.Images[3].Index)
			})
			if c.want == "down" && v.Outcome() != verdict.Unavailable || c.want != "down" && !strings.HasPrefix(said(v), c.want) || c.want == "" && said(v) != "" {
				t.Errorf("got  %s, %s\nwant %s: %v", v.Outcome(), said(v), c.want, v.Findings)
			}
		})
	}
}

// unreferred is a registry that does not say what refers to one manifest.
type unreferred struct {
	*kubernetes.Memory
	of digest.Digest
}

func (u unreferred) Referrers(ctx context.Context, repo string, d digest.Digest) ([]registry.Descriptor, error) {
	if d.Equal(u.of) {
		return nil, &verdict.UnavailableError{Place: "registry", Op: "listing referrers", Err: context.DeadlineExceeded}
	}
	return u.Memory.Referrers(ctx, repo, d)
}

// summed are the findings, or how many there are of each code if they are many.
func summed(v *verdict.Verdict) string {
	switch {
	case v.Outcome() == verdict.Accepted:
		return ""
	case len(v.Findings) > 2:
		return counted(v)
	}
	return said(v)
}
