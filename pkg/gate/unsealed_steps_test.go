package gate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/policies"
)

const (
	kubectl  = "bin/linux/amd64/kubectl"
	proxyTag = "bin/linux/amd64/kube-proxy" + k8slayout.TagSuffix
)

// without is a release v1.31.2 of Kubernetes whose place has these files.
func without(t *testing.T, files map[string]string) unsealed {
	t.Helper()
	read := func(name string) []byte {
		raw, err := policies.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	p, err := policy.Parse(read("kubernetes-today"), nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := k8slayout.ParseList(read("kubernetes/expected/1.31"))
	if err != nil {
		t.Fatal(err)
	}
	return unsealed{UnsealedRequest: UnsealedRequest{Request: Request{Files: place(t, files), Policy: p, Stage: policy.Published, Version: versionOf(t, "v1.31.2")}, List: list}}
}

// describing is an SBOM of the release that describes kubectl and kube-proxy.
func describing(t *testing.T, u unsealed) signedSBOM {
	t.Helper()
	raw, err := spdx.EncodeTagValue(spdx.Draft{
		Name: "release", Namespace: "https://sbom.k8s.io/v1.31.2/release", Created: time.Unix(0, 0), Tool: "test",
		Packages:      []spdx.Package{{ID: "SPDXRef-Image", Name: "registry.k8s.io/kube-proxy-amd64:v1.31.2"}},
		Files:         []spdx.File{{ID: "SPDXRef-File", Name: "./" + kubectl, SHA1: strings.Repeat("0", 40), Digests: digest.SetOf([]byte("kubectl"))}},
		Relationships: []spdx.Relationship{{From: spdx.DocumentID, Type: spdx.Describes, To: "SPDXRef-File"}, {From: spdx.DocumentID, Type: spdx.Describes, To: "SPDXRef-Image"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := signedSBOM{holds: true}
	if s.Witness, err = parseReleaseSBOM(raw, u.Version); err != nil {
		t.Fatal(err)
	}
	return s
}

// refusedAs is the code of an error, or empty.
func refusedAs(err error) verdict.Code {
	if err == nil {
		return ""
	}
	return verdict.FindingOf("", err).Code
}

// TestReleaseOrBuild: builds between two releases are refused, and releases are not.
func TestReleaseOrBuild(t *testing.T) {
	for text, want := range map[string]verdict.Code{"v1.31.2": "", "v1.31.0-rc.1": "", "v1.32.0-alpha.1.45+0123456789abcd": verdict.Unsigned} {
		v, err := version.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := refusedAs(ofRelease(v)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestScopeWithoutManifest: what needs a manifest is refused for a release that has
// none, and the verdict names the checks that are made for the other scopes.
func TestScopeWithoutManifest(t *testing.T) {
	levels := []slsa.Demand{{Track: slsa.Build, Level: 1}}
	for _, row := range []struct {
		scope Scope
		code  verdict.Code
		not   []string // checks that are not made
	}{
		{Scope{}, "", []string{"given files"}},
		{Scope{Only: policy.Files}, "", []string{"images", "given files"}},
		{Scope{Only: policy.Images}, "", []string{"files", "hash sidecars", "given files"}},
		{Scope{Given: []string{"kubectl"}}, "", []string{"files", "hash sidecars", "images"}},
		{Scope{Only: policy.Images, Given: []string{"kubectl"}}, verdict.Usage, nil},
		{Scope{Depth: OnlyFiles}, verdict.Usage, nil},
		{Scope{Depth: OnlySignatures}, verdict.Usage, nil},
		{Scope{Levels: levels}, verdict.Usage, nil},
	} {
		if got := refusedAs(row.scope.fitsUnsealed()); got != row.code {
			t.Errorf("%+v: %q, want %q", row.scope, got, row.code)
		}
		made := unsealed{UnsealedRequest: UnsealedRequest{Request: Request{Options: Options{Scope: row.scope}}}}.checks()
		for _, check := range []string{"signed SBOM", "expected set", "files", "hash sidecars", "signatures", "images", "given files"} {
			if row.code == "" && slices.Contains(made, check) == slices.Contains(row.not, check) {
				t.Errorf("%+v: checks %q", row.scope, made)
			}
		}
	}
}

// TestBoundFile: a signed file is accepted only if the signed SBOM gives its bytes.
func TestBoundFile(t *testing.T) {
	u := without(t, nil)
	sbom := describing(t, u)
	for _, row := range []struct {
		name, body string
		code       verdict.Code
	}{
		{kubectl, "kubectl", ""},
		{kubectl, "changed", verdict.Tampered},
		{"bin/linux/amd64/kubelet", "kubelet", verdict.VersionUnbound},
		{k8slayout.ReleaseSBOM, "the SBOM", ""},
	} {
		if got := refusedAs(u.bindFile(t.Context(), sbom, row.name, digest.SetOf([]byte(row.body)))); got != row.code {
			t.Errorf("%s, %s: %q, want %q", row.name, row.body, got, row.code)
		}
	}
}

// TestBoundSourceSBOM: the SBOM of the source names the version, once.
func TestBoundSourceSBOM(t *testing.T) {
	const line = "DocumentNamespace: https://sbom.k8s.io/v1.31.2/source\n"
	for body, want := range map[string]verdict.Code{
		"SPDXVersion: SPDX-2.3\n" + line + "Creator: x\n": "",
		"SPDXVersion: SPDX-2.3\n":                         verdict.Version,
		line + line:                                       verdict.Version,
		"DocumentNamespace: https://sbom.k8s.io/v1.31.1/source\nCreator: x\n":  verdict.Version,
		"DocumentNamespace: https://sbom.k8s.io/v1.31.2/release\nCreator: x\n": verdict.Version,
	} {
		u := without(t, map[string]string{k8slayout.SourceSBOM: body})
		if got := refusedAs(u.bindFile(t.Context(), describing(t, u), k8slayout.SourceSBOM, digest.SetOf([]byte(body)))); got != want {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
}

// TestTagFiles: a file with the tag of an image contains the version and belongs to an
// image of the SBOM. Other files are none of this check.
func TestTagFiles(t *testing.T) {
	u := without(t, nil)
	sbom := describing(t, u)
	for _, row := range []struct {
		name, body string
		code       verdict.Code
	}{
		{proxyTag, "v1.31.2", ""},
		{proxyTag, "v1.31.2\n", ""},
		{proxyTag, "v1.31.1", verdict.Tampered},
		{"bin/linux/amd64/other" + k8slayout.TagSuffix, "v1.31.2", verdict.VersionUnbound},
		{"bin/linux/amd64/other" + k8slayout.TagSuffix, "", ""}, // missing is reported elsewhere
		{kubectl, "kubectl", ""},
	} {
		sums, err := k8slayout.ParseSums(k8slayout.SHA256Sums, []byte(strings.Repeat("0", 64)+"  "+row.name+"\n"), u.Version)
		if err != nil {
			t.Fatal(err)
		}
		asked, err := k8slayout.Of(sums)
		if err != nil {
			t.Fatal(err)
		}
		files, f := hashedFiles{digests: map[string]digest.Set{}}, facts{}
		if row.body != "" {
			files.digests[row.name] = digest.SetOf([]byte(row.body))
		}
		u.checkTagFiles(sbom, asked, files, &f)
		if len(f.differences) != min(1, len(row.code)) || row.code != "" && f.differences[0].Code != row.code {
			t.Errorf("%s, %q: %+v, want %q", row.name, row.body, f.differences, row.code)
		}
	}
}

// TestListIsWitness: the list that was derived from the source is one of the documents
// that say what the release contains.
func TestListIsWitness(t *testing.T) {
	u := without(t, nil)
	for _, list := range []k8slayout.List{u.List, {}} {
		u.List = list
		w, f := u.readWitnesses(t.Context(), describing(t, u))
		whole, err := k8slayout.Of(w.all...)
		if err != nil || len(f.differences) > 0 {
			t.Fatal(err, f.differences)
		}
		if whole.Independent() == list.IsZero() || slices.Contains(whole.Names(), "bin/linux/amd64/kubelet") == list.IsZero() {
			t.Errorf("list %q: independent is %t, names %d", list.Minor(), whole.Independent(), len(whole.Names()))
		}
	}
}

// TestNamesToTry: where a place lists nothing, each expected name is tried once, with
// its hash sidecars.
func TestNamesToTry(t *testing.T) {
	u := without(t, nil)
	u.Files = unlistable(0)
	sums, err := k8slayout.ParseSums(k8slayout.SHA256Sums, []byte(strings.Repeat("0", 64)+"  "+kubectl+"\n"), u.Version)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := k8slayout.Of(k8slayout.Layout(), sums)
	if err != nil {
		t.Fatal(err)
	}
	var f facts
	objects, listed := u.listPlace(t.Context(), asked, &f)
	var got []string
	for _, o := range objects {
		got = append(got, o.Name)
	}
	want := []string{kubectl, kubectl + ".sha256", kubectl + ".sha512", k8slayout.Provenance}
	for _, name := range []string{k8slayout.SHA256Sums, k8slayout.SHA512Sums, k8slayout.ReleaseSBOM, k8slayout.SourceSBOM} {
		want = append(want, name, name+".sha256", name+".sha512")
	}
	slices.Sort(want)
	if listed || !slices.Equal(got, want) {
		t.Errorf("listed is %t: %q, want %q", listed, got, want)
	}
}

// TestImagesNeedRegistry: images are looked for only where a registry was given, and
// an image that the registry lacks is reported once.
func TestImagesNeedRegistry(t *testing.T) {
	u := without(t, nil)
	sbom := describing(t, u)
	asked, err := k8slayout.Of(sbom.Witness)
	if err != nil {
		t.Fatal(err)
	}
	all, f := u.resolveImages(t.Context(), sbom, asked)
	if len(all) != 0 || len(f.differences) != 1 || f.differences[0].Code != verdict.PlaceDown {
		t.Errorf("no registry: %v, %+v", all, f.differences)
	}
	u.Images = twoImages(t).release.Images
	all, f = u.resolveImages(t.Context(), sbom, asked)
	if len(all) != 3 || len(f.differences) != 2 || f.differences[0].Code != verdict.Missing || f.differences[1].Code != verdict.Missing {
		t.Errorf("a registry without them: %v, %+v", all, f.differences)
	}
	if f := u.checkImages(t.Context(), sbom, all, func(string) bool { return true }); len(f.items) != 0 {
		t.Errorf("images that are not there are judged: %+v", f.items)
	}
}

// TestUnsealedLeaves: what the policy does not require of a class that was judged is
// left out by name.
func TestUnsealedLeaves(t *testing.T) {
	u := without(t, nil)
	for _, row := range []struct {
		judged []counted
		left   bool
	}{
		{nil, false},
		{judgedFiles(kubectl), true},
		{judgedFiles(kubectl, "bin/linux/amd64/kubelet"), true},
		{[]counted{{name: "oci/kube-proxy", class: plan.Image}}, false},
	} {
		f := u.limits(k8slayout.Set{}, collected{judged: row.judged})
		if got := slices.Contains(f.left, "provenance of binary"); got != row.left {
			t.Errorf("%v: left out %q", row.judged, f.left)
		}
	}
}

// TestGivenFileOfTheSBOM: a given file is the one whose bytes the signed SBOM gives. One
// for which the policy requires no signature cannot be verified alone.
func TestGivenFileOfTheSBOM(t *testing.T) {
	u := without(t, nil)
	sbom := describing(t, u)
	whole, err := k8slayout.Of(sbom.Witness)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		body string
		by   policy.Policy
		code verdict.Code
	}{
		{"kubectl", u.Policy, ""},
		{"changed", u.Policy, verdict.Tampered},
		{"kubectl", validBut(t, "signature: require", "signature: warn"), verdict.Unsigned},
	} {
		u.Policy = row.by
		name, err := u.recognise(sbom, whole, "kubectl", digest.SetOf([]byte(row.body)))
		if refusedAs(err) != row.code || (name == kubectl) != (row.code == "") {
			t.Errorf("%s: %q, %v, want %q", row.body, name, err, row.code)
		}
	}
}
