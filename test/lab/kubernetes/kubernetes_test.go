package kubernetes_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/lab/kubernetes"
)

const kubectl, kubelet = "bin/linux/amd64/kubectl", "bin/linux/arm64/kubelet"

// world is one lab and one signed release for the whole package. Nobody
// changes it; who attacks the release takes a copy.
type world struct {
	lab     *lab.Lab
	signer  kubernetes.Signer
	release *kubernetes.Release
	profile profile.Profile
	kept    *rekorv1.Evidence // the log's answers, so that each is asked for once
}

var opened struct {
	once  sync.Once
	world *world
	err   error
	dir   string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if w := opened.world; w != nil && w.lab.Close() != nil {
		code = 1
	}
	_ = os.RemoveAll(opened.dir)
	os.Exit(code)
}

func theWorld(t testing.TB) *world {
	t.Helper()
	opened.once.Do(func() { opened.world, opened.err = openWorld() })
	if opened.err != nil {
		t.Fatal(opened.err)
	}
	return opened.world
}

func openWorld() (w *world, err error) {
	if opened.dir, err = os.MkdirTemp("", "waybill-kubernetes-"); err != nil {
		return nil, err
	}
	w = &world{}
	if w.lab, err = lab.Start(context.Background(), lab.Options{Dir: filepath.Join(opened.dir, "lab")}); err != nil {
		return nil, err
	}
	v, err := version.Parse("v1.31.2")
	if err != nil {
		return w, err
	}
	w.signer, w.release = kubernetes.Signer{Lab: w.lab}, kubernetes.Make(v)
	if err := w.release.Sign(context.Background(), w.signer); err != nil {
		return w, err
	}
	if err := kubernetes.WriteProfile(w.lab, opened.dir); err != nil {
		return w, err
	}
	if w.profile, err = profile.Load(filepath.Join(opened.dir, "profile.yaml"), profile.Reader{Now: time.Now()}); err != nil {
		return w, err
	}
	w.kept, err = rekorv1.OpenEvidence(filepath.Join(opened.dir, "evidence"))
	return w, err
}

// question is what is asked about a copy of the release.
type question struct {
	release    *kubernetes.Release
	w          *world
	unlistable bool
	down       string // what the place gives no answer for
	noLog      bool
	images     registry.Source // instead of the release's own
	gate.UnsealedRequest
}

// ask publishes a copy of the release, changed, and judges it.
func (w *world) ask(t testing.TB, change func(*question)) *verdict.Verdict {
	t.Helper()
	q := &question{release: w.release.Clone(), w: w}
	verifier, err := verify.NewWith(w.profile.TrustRoot, w.profile.Policy.Verification())
	if err != nil {
		t.Fatal(err)
	}
	log, err := rekorv1.Open(w.lab.RekorV1, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	list, known, err := k8slayout.Kubernetes(w.release.Version)
	if err != nil || !known {
		t.Fatal(known, err)
	}
	q.UnsealedRequest = gate.UnsealedRequest{
		Request: gate.Request{
			Version: w.release.Version, Verifier: verifier, Policy: w.profile.Policy, Stage: policy.Published, Now: time.Now(),
			Canon:   gate.Canonical{Files: "https://dl.k8s.io/release/v1.31.2/", Images: "registry.k8s.io"},
			Waivers: gate.Waivers{Lists: w.profile.Defects},
		},
		List: list, Finder: rekorv1.Finder{Log: log, Evidence: w.kept},
	}
	if change != nil {
		change(q)
	}
	if q.noLog {
		q.Finder = rekorv1.Finder{}
	}
	q.Files = kubernetes.Place{Files: q.release.Files, Unlistable: q.unlistable, Down: q.down}
	if q.Images = q.images; q.images == nil {
		q.Images = push(t, q.release)
	}
	return q.Decide(t.Context()).Verdict
}

func push(t testing.TB, r *kubernetes.Release) *kubernetes.Memory {
	t.Helper()
	m := kubernetes.NewMemory()
	for _, i := range r.Images {
		if err := i.Push(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// said are the codes and subjects of the findings, sorted.
func said(v *verdict.Verdict) string {
	var all []string
	for _, f := range v.Findings {
		all = append(all, string(f.Code)+" "+f.Subject)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// TestToday is the release as it was made: accepted, and never complete.
func TestToday(t *testing.T) {
	w := theWorld(t)
	if n := len(w.release.Files); n < 600 {
		t.Errorf("%d objects", n)
	}
	v := w.ask(t, nil)
	if v.Outcome() != verdict.Accepted {
		t.Fatalf("%s", said(v))
	}
	// 120 files that somebody signs, 6 indexes, 24 platforms in them and by
	// themselves. The expected set, the layout and the sums prove nothing.
	if v.Counts.Verified != 174 || v.Counts.Required != 174 || len(v.Proofs) < 174 || v.Counts.Missing != 0 || v.Counts.Extra != 0 {
		t.Errorf("%s", v.Counts)
	}
	left := strings.Join(v.Scope.Left, "\n")
	for _, want := range []string{"a signed list of the release's contents", "provenance of binary", "closed files", "other addresses of the images"} {
		if !strings.Contains(left, want) {
			t.Errorf("it does not say that it leaves out %q:\n%s", want, left)
		}
	}
	notes := strings.Join(append(v.Sentences, v.Notes...), "\n")
	for _, want := range []string{"INSECURE LAB", "expected set: 143 files", "the list of 1.31 (140, derived from the source)", "provenance.json is unsigned", "level 2 fails for build.authentic, build.hosted", "provenance.authenticated"} {
		if !strings.Contains(notes, want) {
			t.Errorf("it does not say %q:\n%s", want, notes)
		}
	}
	if len(v.Levels) != 3 || v.Levels[0].Level != 1 || v.Levels[1].Level != 1 || v.Levels[2].Level != 0 || len(v.Levels[0].Next) == 0 {
		t.Errorf("levels %+v", v.Levels)
	}
	if len(v.Warnings) != 2 || v.Warnings[0].Code != verdict.Unsigned {
		t.Errorf("the sums, which nobody signs, are warned about: %+v", v.Warnings)
	}
}

// all changes every witness that is no file of its own, with the bytes.
func (q *question) all(name string) {
	q.release.Sums()
	q.release.Sidecar(name)
}

// TestTodayFiles changes one fact a row.
func TestTodayFiles(t *testing.T) {
	w := theWorld(t)
	for _, c := range []struct {
		name   string
		change func(t *testing.T, q *question)
		want   string
	}{
		{"a file is gone", func(_ *testing.T, q *question) { delete(q.release.Files, kubelet) }, "MISSING " + kubelet},
		{"a file is gone, and from the sums too", func(_ *testing.T, q *question) { delete(q.release.Files, kubelet); q.release.Sums() },
			"EVIDENCE_CONFLICT " + kubelet + ", MISSING " + kubelet},
		{"a file is gone with all that the build says of it", func(_ *testing.T, q *question) {
			for _, suffix := range []string{"", ".sha256", ".sha512", ".sig", ".cert"} {
				delete(q.release.Files, kubelet+suffix)
			}
			q.release.Document() // the list alone still names it
			sign(q, k8slayout.ReleaseSBOM, k8slayout.SourceSBOM)
		}, "EVIDENCE_CONFLICT " + kubelet + ", MISSING " + kubelet},
		{"a stranger's file", func(_ *testing.T, q *question) { q.release.Files["bin/linux/amd64/kubectl2"] = []byte("x") }, "EXTRA bin/linux/amd64/kubectl2"},
		{"a stranger's file that was signed", func(_ *testing.T, q *question) {
			q.release.Files["bin/linux/amd64/kubectl2"] = []byte("x")
			sign(q, "bin/linux/amd64/kubectl2")
		}, "EXTRA bin/linux/amd64/kubectl2, EXTRA bin/linux/amd64/kubectl2.cert, EXTRA bin/linux/amd64/kubectl2.sig"},
		{"a stranger's file in a place that can not be listed", func(_ *testing.T, q *question) {
			q.release.Files["bin/linux/amd64/kubectl2"], q.unlistable = []byte("x"), true
		}, ""},
		{"a manifest that nobody asked for", func(_ *testing.T, q *question) { q.release.Files["release-manifest.sigstore.json"] = []byte("{}") }, "EXTRA release-manifest.sigstore.json"},
		{"a changed byte", func(_ *testing.T, q *question) { q.release.Files[kubectl] = []byte("x") }, "TAMPERED " + kubectl},
		{"a changed byte, and its sidecars", func(_ *testing.T, q *question) { q.release.Files[kubectl] = []byte("x"); q.release.Sidecar(kubectl) }, "TAMPERED " + kubectl},
		{"a changed byte, its sidecars and the sums", func(_ *testing.T, q *question) { q.release.Files[kubectl] = []byte("x"); q.all(kubectl) }, "EVIDENCE_CONFLICT " + kubectl},
		{"a changed byte, and everything that nobody signed", func(_ *testing.T, q *question) {
			sbom := q.release.Files[k8slayout.ReleaseSBOM]
			q.release.Files[kubectl] = []byte("x")
			q.release.Document()
			q.release.Files[k8slayout.ReleaseSBOM] = sbom
			q.all(k8slayout.ReleaseSBOM)
		}, "EVIDENCE_CONFLICT " + kubectl},
		{"a changed byte, and every document", func(_ *testing.T, q *question) { q.release.Files[kubectl] = []byte("x"); q.release.Document() },
			"SIG_INVALID kubernetes-release.spdx"},
		{"a changed byte, every document, and signed again", func(_ *testing.T, q *question) {
			q.release.Files[kubectl] = []byte("x")
			q.release.Document()
			sign(q, kubectl, k8slayout.ReleaseSBOM)
		}, ""}, // who is krel-staging can do that: the page of the policy says so
		{"two files swapped", func(_ *testing.T, q *question) {
			q.release.Files[kubectl], q.release.Files[kubelet] = q.release.Files[kubelet], q.release.Files[kubectl]
		}, "NAME_SWAP " + kubectl + ", NAME_SWAP " + kubelet},
		{"a sidecar lies", func(_ *testing.T, q *question) { q.release.Files[kubectl+".sha256"] = []byte(strings.Repeat("0", 64)) }, "EVIDENCE_CONFLICT " + kubectl + ".sha256"},
		{"a sidecar is gone", func(_ *testing.T, q *question) { delete(q.release.Files, kubectl+".sha512") }, "MISSING " + kubectl + ".sha512"},
		{"the provenance lies", func(_ *testing.T, q *question) { lie(q, k8slayout.Provenance, kubectl) }, "EVIDENCE_CONFLICT " + kubectl},
		{"the provenance is of another version", func(_ *testing.T, q *question) {
			swap(q, k8slayout.Provenance, "release/v1.31.2/", "release/v1.31.1/")
		}, "VERSION provenance.json"},
		{"the provenance omits a file", func(_ *testing.T, q *question) {
			swap(q, k8slayout.Provenance, "v1.31.2/"+kubectl+`"`, "v1.31.2/SHA256SUMS\"")
		}, "EVIDENCE_CONFLICT " + kubectl + ", TAMPERED SHA256SUMS"},
		{"the provenance is none", func(_ *testing.T, q *question) { q.release.Files[k8slayout.Provenance] = []byte("{}") }, "STATEMENT_TYPE provenance.json"},
		{"the provenance is gone", func(_ *testing.T, q *question) { delete(q.release.Files, k8slayout.Provenance) }, "MISSING provenance.json"},
		{"the SBOM omits a file", func(_ *testing.T, q *question) {
			kept := q.release.Files[kubectl]
			delete(q.release.Files, kubectl)
			swapped := q.release.Clone()
			swapped.Document()
			q.release.Files[kubectl], q.release.Files[k8slayout.ReleaseSBOM] = kept, swapped.Files[k8slayout.ReleaseSBOM]
			q.all(k8slayout.ReleaseSBOM)
			sign(q, k8slayout.ReleaseSBOM)
		}, "EVIDENCE_CONFLICT " + kubectl},
		{"the SBOM is changed", func(_ *testing.T, q *question) {
			lie(q, k8slayout.ReleaseSBOM, kubectl)
			q.all(k8slayout.ReleaseSBOM)
		}, "SIG_INVALID kubernetes-release.spdx"},
		{"the SBOM is another kind of document", func(_ *testing.T, q *question) {
			q.release.Files[k8slayout.ReleaseSBOM] = []byte("{}")
			q.all(k8slayout.ReleaseSBOM)
			sign(q, k8slayout.ReleaseSBOM)
		}, "PAYLOAD_PARSE kubernetes-release.spdx"},
		{"sums as they were of before", func(_ *testing.T, q *question) {
			for _, sums := range []string{k8slayout.SHA256Sums, k8slayout.SHA512Sums} {
				q.release.Files[sums] = []byte(strings.ReplaceAll(string(q.release.Files[sums]), "  ", "  /workspace/src/k8s.io/kubernetes/_output-v1.31.2/gcs-stage/v1.31.2/"))
				q.release.Sidecar(sums)
			}
		}, ""},
		{"the sums are gone", func(_ *testing.T, q *question) { delete(q.release.Files, k8slayout.SHA256Sums) }, "MISSING SHA256SUMS"},
		{"a signature is gone", func(_ *testing.T, q *question) { delete(q.release.Files, kubectl+".sig") }, "UNSIGNED " + kubectl},
		{"a certificate is gone", func(_ *testing.T, q *question) { delete(q.release.Files, kubectl+".cert") }, "UNSIGNED " + kubectl},
		{"a signature of another run", func(t *testing.T, q *question) {
			certificate := q.release.Files[kubectl+".cert"]
			sign(q, kubectl)
			q.release.Files[kubectl+".cert"] = certificate
		}, "SIG_INVALID " + kubectl},
		{"a signature of another file", func(_ *testing.T, q *question) {
			q.release.Files[kubectl+".sig"], q.release.Files[kubectl+".cert"] = q.release.Files[kubelet+".sig"], q.release.Files[kubelet+".cert"]
		}, "SIG_INVALID " + kubectl},
		{"signed by a stranger", signedBy("stranger@example.test"), "IDENTITY " + kubectl},
		{"signed by the account of the promoter", signedBy(kubernetes.Promoter), "IDENTITY " + kubectl},
		{"signed by the account for images", signedBy(kubernetes.Trust), "IDENTITY_ROLE " + kubectl},
		{"signed again by the right account", signedBy(kubernetes.Staging), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := w.ask(t, func(q *question) { c.change(t, q) })
			if got := said(v); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if (v.Outcome() == verdict.Accepted) != (c.want == "") {
				t.Errorf("%s", v.Outcome())
			}
		})
	}
}

func signedBy(account string) func(*testing.T, *question) {
	return func(t *testing.T, q *question) {
		if err := q.release.SignFile(q.w.signer, account, kubectl); err != nil {
			t.Fatal(err)
		}
	}
}

// sign signs files again as the right account does.
func sign(q *question, names ...string) {
	for _, name := range names {
		if err := q.release.SignFile(q.w.signer, kubernetes.Staging, name); err != nil {
			panic(err)
		}
	}
}

// lie changes the digests that a document gives for a file.
func lie(q *question, document, name string) {
	r := q.release.Clone()
	r.Files[name] = append(slices.Clone(r.Files[name]), 'x')
	r.Document()
	q.release.Files[document] = r.Files[document]
}

func swap(q *question, document, from, to string) {
	q.release.Files[document] = []byte(strings.ReplaceAll(string(q.release.Files[document]), from, to))
}

// TestTodayUnavailable: what the world did not answer is never a refusal, and
// never accepted; what is wrong besides refuses all the same.
func TestTodayUnavailable(t *testing.T) {
	w := theWorld(t)
	for name, c := range map[string]struct {
		change func(*question)
		want   verdict.Outcome
	}{
		"a file":                   {func(q *question) { q.down = kubectl }, verdict.Unavailable},
		"a sidecar":                {func(q *question) { q.down = kubectl + ".sha256" }, verdict.Unavailable},
		"a signature":              {func(q *question) { q.down = kubectl + ".sig" }, verdict.Unavailable},
		"the sums":                 {func(q *question) { q.down = k8slayout.SHA256Sums }, verdict.Unavailable},
		"the SBOM":                 {func(q *question) { q.down = k8slayout.ReleaseSBOM }, verdict.Unavailable},
		"a file, and another gone": {func(q *question) { q.down = kubectl; delete(q.release.Files, kubelet) }, verdict.Refused},
		"nothing; all digests":     {func(q *question) { q.Options.AllDigests = true }, verdict.Accepted},
		"nothing":                  {func(*question) {}, verdict.Accepted},
	} {
		if v := w.ask(t, c.change); v.Outcome() != c.want {
			t.Errorf("%s: %s, want %s: %s", name, v.Outcome(), c.want, said(v))
		}
	}
}

// defects is a list that knows of one accident, as that of v1.35.0.
const defects = `apiVersion: waybill/v1
kind: KnownDefects
name: kubernetes-known-defects
sequence: 2
issued: %q
expires: %q
defects:
- id: kubectl-amd64
  versions: {list: [%s]}
  artifacts: [bin/linux/amd64/kubectl]
  code: SIG_INVALID
  explanation: "kubectl.sig and kubectl.cert are of two runs"
  source: https://example.test/1
`

// TestTodayKnownDefects: a defect that is known explains a refusal, of its own
// version only, and excuses nothing.
func TestTodayKnownDefects(t *testing.T) {
	w := theWorld(t)
	for version, known := range map[string]bool{"v1.31.2": true, "v1.31.1": false} {
		v := w.ask(t, func(q *question) {
			issued := time.Now().Add(-time.Hour).UTC()
			list, err := waiver.CarriedList(fmt.Appendf(nil, defects, issued.Format(time.RFC3339), issued.AddDate(0, 1, 0).Format(time.RFC3339), version))
			if err != nil {
				t.Fatal(err)
			}
			q.Waivers = gate.Waivers{Lists: []waiver.List{list}}
			q.release.Files[kubectl+".sig"] = q.release.Files[kubelet+".sig"]
		})
		i := slices.IndexFunc(v.Findings, func(f verdict.Finding) bool { return f.Code == verdict.SignatureBad && f.Subject == kubectl })
		if i < 0 || v.Outcome() != verdict.Refused || (v.Findings[i].Known != nil) != known {
			t.Errorf("a defect of %s: %s, %s, %+v", version, v.Outcome(), said(v), v.Findings)
		}
	}
}

// TestTodayUnknownMinor: without a list the release is judged all the same, and
// that nobody independent spoke is said.
func TestTodayUnknownMinor(t *testing.T) {
	w := theWorld(t)
	for name, unlisted := range map[string]bool{"a list": false, "no list": true} {
		v := w.ask(t, func(q *question) {
			if unlisted {
				q.List = k8slayout.List{}
			}
		})
		if v.Outcome() != verdict.Accepted || slices.Contains(v.Scope.Left, "expected set: not independent of the build") != unlisted {
			t.Errorf("%s: %s, %s, left %q", name, v.Outcome(), said(v), v.Scope.Left)
		}
	}
	v := w.ask(t, func(q *question) { q.noLog = true })
	if v.Outcome() != verdict.Unavailable {
		t.Errorf("no log and no answer of one: %s", v.Outcome())
	}
}
