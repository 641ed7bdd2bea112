package identity

import (
	"maps"
	"reflect"
	"slices"
	"testing"
)

func TestCompare(t *testing.T) {
	meant := Identity{Issuer: "https://accounts.example.test", Subject: "release@example.test", Type: Email}
	exact, err := Exact(meant)
	if err != nil {
		t.Fatal(err)
	}
	pattern, err := Pattern(meant.Issuer, `release@example\.test`, Email)
	if err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		name   string
		change func(*Identity)
		want   Difference
	}{
		{"the one that is meant", func(*Identity) {}, noType},
		{"C11 another issuer", func(i *Identity) { i.Issuer += ".evil.example" }, OtherIssuer},
		{"C08 another kind", func(i *Identity) { i.Type = URI }, OtherType},
		{"another issuer and kind", func(i *Identity) { i.Issuer, i.Type = "https://evil.example", URI }, Stranger},
		{"C01 another name", func(i *Identity) { i.Subject = "not-" + i.Subject }, Stranger},
		{"nobody", func(i *Identity) { *i = Identity{} }, Stranger},
	}
	for _, r := range rows {
		who := meant
		r.change(&who)
		for _, m := range []Matcher{exact, pattern} {
			if got := m.Compare(who); got != r.want {
				t.Errorf("%s: %s against %s is %d, want %d", r.name, who, m, got, r.want)
			}
		}
		if got := (Matcher{}).Compare(who); got != Stranger {
			t.Errorf("%s: against nobody is %d", r.name, got)
		}
	}
}

func TestDemand(t *testing.T) {
	said := Claims{BuildTrigger: "push", RunnerEnvironment: "github-hosted", SourceRef: "refs/tags/v1"}
	rows := []struct {
		name  string
		list  []string
		unmet string
		bad   bool
	}{
		{"nothing", nil, "", false},
		{"what is said", []string{"buildTrigger=push", "runnerEnvironment=github-hosted"}, "", false},
		{"C25 another trigger", []string{"buildTrigger=pull_request_target"}, "buildTrigger", false},
		{"what is not said", []string{"sourceRepositoryOwnerIdentifier=1"}, "sourceRepositoryOwnerIdentifier", false},
		{"C22 a branch with the tag's name", []string{"sourceRepositoryRef=refs/heads/v1"}, "sourceRepositoryRef", false},
		{"an unknown claim", []string{"trusted=yes"}, "", true},
		{"no value", []string{"buildTrigger"}, "", true},
		{"an empty value", []string{"buildTrigger="}, "", true},
		{"twice", []string{"buildTrigger=push", "buildTrigger=schedule"}, "", true},
	}
	for _, r := range rows {
		d, err := ParseDemand(r.list)
		if (err != nil) != r.bad {
			t.Errorf("%s: %v", r.name, err)
		}
		if name, unmet := d.Unmet(said); name != r.unmet || unmet != (r.unmet != "") {
			t.Errorf("%s: unmet is %q, want %q", r.name, name, r.unmet)
		}
	}
}

// TestClaimNames: every claim can be demanded.
func TestClaimNames(t *testing.T) {
	var c Claims
	fields := reflect.ValueOf(&c).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetString("x")
	}
	all := slices.Sorted(maps.Keys(maps.Collect(c.All())))
	if names := slices.Sorted(slices.Values(ClaimNames())); !slices.Equal(names, all) {
		t.Errorf("names %q, want %q", names, all)
	}
}

// TestLintPattern: what a pattern must not leave open (B16, C03, C04, C05,
// C07).
func TestLintPattern(t *testing.T) {
	rows := []struct {
		pattern string
		kind    SANType
		faults  int
	}{
		{`release@lab\.example`, Email, 0},
		{`^release@lab\.example$`, Email, 0},
		{`(release|deputy)@lab\.example`, Email, 0},
		{`(release@lab\.example)|(deputy@lab\.example)`, Email, 0},
		{`[^r]elease@lab\.example`, Email, 0},
		{`https://forge\.example/org/repo/.*`, URI, 0},
		{`^https://forge\.example/org/.*`, URI, 0},
		{`(https://forge\.example/org/a|https://forge\.example/org/b)`, URI, 0},
		{`https://forge\.example/org/repo/\.forge/release\.yml@refs/tags/v1\.[0-9]+`, URI, 0},
		{``, Email, 1},
		{`.*`, Email, 1},
		{`.+`, URI, 1},
		{`release@lab.example`, Email, 1},
		{`release@[a-z]+\.example`, Email, 1},
		{`release@lab\.example[a-z.]*`, Email, 1},
		{`release@(lab|bal)\.example`, Email, 1},
		{`(?i)release@lab\.example`, Email, 1},
		{`(release@lab\.example|deputy)`, Email, 1},
		{`[!r]elease@lab\.example`, Email, 1},
		{`release@`, Email, 1},
		{`[a-z]{1,64}@lab\.example`, Email, 0},
		{`(a{1,90}){1,90}@lab\.example`, Email, 1},
		{`https://forge.example/org/repo`, URI, 1},
		{`https://forge\.example/.*`, URI, 1},
		{`https://forge\.example/org.*`, URI, 1},
		{`https://(forge|egrof)\.example/org/repo/.*`, URI, 1},
		{`.*forge\.example/org/repo/.*`, URI, 1},
		{`.*/release\.yml@refs/tags/v1`, URI, 1},
		{`(?i)https://forge\.example/org/repo/.*`, URI, 1},
		{`(release@lab.example|deputy@lab\.example)`, Email, 1},
		{`(https://forge.example/a|https://forge\.example/b)`, URI, 1},
		{`^release@lab\.example$|b@lab\.example`, Email, 1},
		{`(`, Email, 1},
	}
	for _, r := range rows {
		if got := LintPattern(r.pattern, r.kind); len(got) != r.faults {
			t.Errorf("%q: faults %q, want %d", r.pattern, got, r.faults)
		}
		if _, err := Pattern("https://issuer.example", r.pattern, r.kind); (err != nil) != (r.faults > 0) {
			t.Errorf("%q: %v", r.pattern, err)
		}
	}
}
