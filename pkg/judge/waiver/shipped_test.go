package waiver_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/policies"
)

const shipped = "kubernetes-known-defects"

// carried is the list that the program carries.
func carried(t *testing.T) ([]byte, waiver.List) {
	t.Helper()
	raw, err := policies.Read(shipped)
	if err != nil {
		t.Fatal(err)
	}
	l, err := waiver.CarriedList(raw)
	if err != nil {
		t.Fatal(err)
	}
	return raw, l
}

// TestShippedDefects: the list that the program carries loads, each entry has
// its row on the page, and the page has no other.
func TestShippedDefects(t *testing.T) {
	raw, l := carried(t)
	said, err := knowndefects.ParseFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../policies/" + shipped + ".md")
	if err != nil || !strings.HasPrefix(string(page), "# "+shipped+"\n") || l.Name() != shipped {
		t.Fatalf("%q, %v", l.Name(), err)
	}
	for _, d := range said.Defects {
		_, may := waiver.Exceptable(d.Code)
		can := map[bool]string{true: "yes", false: "no"}[may]
		row := regexp.MustCompile(fmt.Sprintf("(?m)^\\| `%s` \\| .* \\| `%s` \\| %s\\b.*\\|$", regexp.QuoteMeta(d.ID), d.Code, can))
		if !row.Match(page) {
			t.Errorf("the page has no row for %s with code %s that says %q", d.ID, d.Code, can)
		}
		if !strings.Contains(string(page), d.Source) {
			t.Errorf("the page does not name the source of %s", d.ID)
		}
	}
	if rows := strings.Count(string(page), "\n| `"); rows != len(said.Defects) {
		t.Errorf("%d rows for %d defects", rows, len(said.Defects))
	}
}

// TestShippedDefectsExplain brings a finding that each incident made before
// the list, beside one that is only like it.
func TestShippedDefectsExplain(t *testing.T) {
	_, l := carried(t)
	const ctl = "bin/linux/amd64/kubectl"
	rows := []struct {
		release, artifact string
		code              verdict.Code
		id                string // empty: not known
		accepted          verdict.Outcome
	}{
		{"v1.24.8", "oci/kube-apiserver", verdict.Identity, "wrong-signer-v1.24.8", verdict.Refused},
		{"v1.24.7", "oci/kube-apiserver", verdict.Identity, "", verdict.Refused},
		{"v1.24.8", "oci/kube-apiserver", verdict.Unsigned, "", verdict.Refused},
		{"v1.26.2", "oci/kube-proxy-arm64", verdict.Unsigned, "half-signed-2023-02", verdict.Accepted},
		{"v1.26.3", "oci/kube-proxy/linux/arm64", verdict.Unsigned, "half-signed-2023-03", verdict.Accepted},
		{"v1.26.1", "oci/kube-proxy", verdict.Unsigned, "regional-signatures", verdict.Accepted},
		{"v1.27.16", "oci/kube-proxy", verdict.Unsigned, "regional-signatures", verdict.Accepted},
		{"v1.28.0", "oci/kube-proxy", verdict.Unsigned, "", verdict.Refused},
		{"v1.27.16", "oci/kube-proxy", verdict.Tampered, "", verdict.Refused},
		{"v1.28.2", "oci/kube-apiserver-amd64", verdict.Identity, "no-match-v1.28.2", verdict.Refused},
		{"v1.28.2", "oci/kube-apiserver-s390x", verdict.Identity, "", verdict.Refused},
		{"v1.32.0", "oci/kube-scheduler-amd64", verdict.Unsigned, "late-v1.32.0", verdict.Accepted},
		{"v1.32.1", "oci/kube-scheduler-amd64", verdict.Unsigned, "", verdict.Refused},
		{"v1.35.0", ctl, verdict.LogSigMismatch, "kubectl-amd64-v1.35.0-sig", verdict.Refused},
		{"v1.35.0", ctl, verdict.LogKeyMismatch, "kubectl-amd64-v1.35.0-cert", verdict.Refused},
		{"v1.35.0", ctl, verdict.SignatureBad, "kubectl-amd64-v1.35.0-bytes", verdict.Refused},
		{"v1.35.0", "bin/linux/arm64/kubectl", verdict.SignatureBad, "", verdict.Refused},
		{"v1.35.1", ctl, verdict.SignatureBad, "", verdict.Refused},
	}
	for _, r := range rows {
		t.Run(fmt.Sprintf("%s %s %s", r.release, r.artifact, r.code), func(t *testing.T) {
			v := verdict.New("kubernetes "+r.release, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
			v.Counts = verdict.Counts{Verified: 1, Required: 2}
			v.Proofs = []verdict.Proof{{Subject: "another", Bundle: digest.SetOf([]byte("its bundle")).SHA256}}
			v.Add(verdict.Find(r.code, r.artifact, "m"))
			c := waiver.Case{Version: must(t, r.release), Lists: []waiver.List{l}, Subjects: []waiver.Subject{
				{Name: r.artifact, Digests: digest.SetOf([]byte(r.artifact))},
			}}
			waiver.Apply(v, c)
			if k := v.Findings[0].Known; (k == nil) != (r.id == "") || k != nil && k.ID != r.id {
				t.Fatalf("explained by %v, want %q", k, r.id)
			}
			if v.Outcome() != verdict.Refused {
				t.Fatalf("explained, and so %s", v.Outcome())
			}
			if r.id == "" {
				return
			}
			c.Accept = []string{r.id}
			waiver.Apply(v, c)
			if v.Outcome() != r.accepted {
				t.Errorf("accepted by name: %s, want %s", v.Headline(), r.accepted)
			}
		})
	}
}
