package trust_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/judge/trust"
)

func TestAuthoritiesNameEachKey(t *testing.T) {
	a := whole(t, "INSECURE LAB of Example", "Example")
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	a.fulcio[0].(*root.FulcioCertificateAuthority).ValidityPeriodEnd = until
	r, err := trust.Parse(a.json(t))
	if err != nil {
		t.Fatal(err)
	}
	list := r.Authorities()
	var kinds []trust.Kind
	for _, one := range list {
		kinds = append(kinds, one.Kind)
		if len(one.KeyID) != 64 || one.From.IsZero() {
			t.Errorf("%s: key %q, from %s", one.Kind, one.KeyID, one.From)
		}
	}
	want := []trust.Kind{trust.CertificateAuthority, trust.CertificateLog, trust.TransparencyLog, trust.TimestampAuthority}
	if !slices.Equal(kinds, want) {
		t.Fatalf("kinds %q, want %q", kinds, want)
	}
	if ca := list[0]; !ca.Lab || ca.Subject != "CN=an authority,O=INSECURE LAB of Example" || !ca.To.Equal(until) {
		t.Errorf("certificate authority %+v", ca)
	}
	if tsa := list[3]; tsa.Lab || !tsa.To.IsZero() {
		t.Errorf("timestamp authority %+v", tsa)
	}
	list[0].Subject = "somebody else"
	if r.Authorities()[0].Subject == list[0].Subject {
		t.Error("what a caller does to the list reaches the root")
	}
}

func TestAuthoritiesAreInOneOrder(t *testing.T) {
	a := whole(t, "Example", "Example")
	for range 8 {
		for id, l := range log(t) {
			a.rekor[id] = l
		}
	}
	raw := a.json(t)
	first, err := trust.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		again, err := trust.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(first.Authorities(), again.Authorities()) {
			t.Fatal("the same root lists its logs in another order")
		}
	}
}

func TestValidAt(t *testing.T) {
	day := func(d int) time.Time { return time.Date(2026, 1, d, 0, 0, 0, 0, time.UTC) }
	for _, r := range []struct {
		name string
		a    trust.Authority
		at   time.Time
		want bool
	}{
		{"before its window", trust.Authority{From: day(2), To: day(4)}, day(1), false},
		{"at its beginning", trust.Authority{From: day(2), To: day(4)}, day(2), true},
		{"at its end", trust.Authority{From: day(2), To: day(4)}, day(4), true},
		{"after its window", trust.Authority{From: day(2), To: day(4)}, day(5), false},
		{"without an end", trust.Authority{From: day(2)}, day(30), true},
		{"without a beginning", trust.Authority{To: day(4)}, day(1), true},
	} {
		if got := r.a.ValidAt(r.at); got != r.want {
			t.Errorf("%s: valid %t, want %t", r.name, got, r.want)
		}
	}
}
