package channel

import (
	"slices"
	"testing"
	"time"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func issued() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func ver(t *testing.T, s string) version.Version {
	t.Helper()
	v, err := version.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func bundle(s string) digest.Set { return digest.SetOf([]byte(s)) }

// seventh is an index of number 7, as its statement is read.
func seventh(t *testing.T, edits ...func(*channelindex.Predicate, map[string]digest.Set)) Index {
	t.Helper()
	p := channelindex.Predicate{Name: "lantern", Number: 7, Issued: issued(), Expires: issued().Add(time.Hour), Channels: []channelindex.Entry{
		{Channel: "stable", Version: "v0.2.0"}, {Channel: "latest", Version: "v0.3.0-rc.1"},
	}}
	manifests := map[string]digest.Set{"v0.2.0": bundle("two"), "v0.3.0-rc.1": bundle("three")}
	for _, edit := range edits {
		edit(&p, manifests)
	}
	s, err := channelindex.New(p, manifests)
	if err != nil {
		t.Fatal(err)
	}
	said, err := channelindex.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return Index{said: said}
}

func wants(t *testing.T, err error, code verdict.Code) {
	t.Helper()
	switch {
	case code == "" && err != nil:
		t.Errorf("refused: %v", err)
	case code != "" && (err == nil || verdict.FindingOf("", err).Code != code):
		t.Errorf("%v, want %s", err, code)
	}
}

// TestFollows changes one fact of an index that follows number 7.
func TestFollows(t *testing.T) {
	type edit = func(*channelindex.Predicate, map[string]digest.Set)
	seen := seventh(t)
	rows := []struct {
		name string
		edit edit
		code verdict.Code
	}{
		{"the very same", func(*channelindex.Predicate, map[string]digest.Set) {}, ""},
		{"the same, written in another order", func(p *channelindex.Predicate, _ map[string]digest.Set) { slices.Reverse(p.Channels) }, ""},
		{"the next", func(p *channelindex.Predicate, _ map[string]digest.Set) { p.Number = 8 }, ""},
		{"a later one, those between unseen", func(p *channelindex.Predicate, _ map[string]digest.Set) { p.Number = 70 }, ""},
		{"a higher number, issued before", func(p *channelindex.Predicate, _ map[string]digest.Set) {
			p.Number, p.Issued = 8, p.Issued.Add(-time.Hour)
		}, ""},
		{"the one before", func(p *channelindex.Predicate, _ map[string]digest.Set) { p.Number = 6 }, verdict.ChannelStale},
		{"another project's", func(p *channelindex.Predicate, _ map[string]digest.Set) { p.Name, p.Number = "torch", 8 }, "CHANNEL_FORK"},
		{"the same number, another manifest", func(_ *channelindex.Predicate, m map[string]digest.Set) { m["v0.2.0"] = bundle("other") }, "CHANNEL_FORK"},
		{"the same number, another sha512 alone", func(_ *channelindex.Predicate, m map[string]digest.Set) {
			m["v0.2.0"] = digest.Set{SHA256: bundle("two").SHA256, SHA512: bundle("other").SHA512}
		}, "CHANNEL_FORK"},
		{"the same number, another version", func(p *channelindex.Predicate, m map[string]digest.Set) {
			p.Channels[0].Version, m["v0.2.1"] = "v0.2.1", bundle("two")
			delete(m, "v0.2.0")
		}, "CHANNEL_FORK"},
		{"the same number, one channel more", func(p *channelindex.Predicate, _ map[string]digest.Set) {
			p.Channels = append(p.Channels, channelindex.Entry{Channel: "stable-0.2", Version: "v0.2.0"})
		}, "CHANNEL_FORK"},
		{"the same number, issued at another time", func(p *channelindex.Predicate, _ map[string]digest.Set) { p.Issued = p.Issued.Add(-time.Second) }, "CHANNEL_FORK"},
		{"the same number, another expiry", func(p *channelindex.Predicate, _ map[string]digest.Set) { p.Expires = p.Expires.Add(time.Second) }, "CHANNEL_FORK"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			wants(t, seventh(t, r.edit).Follows(seen), r.code)
			wants(t, seventh(t, r.edit).Follows(Index{}), "")
		})
	}
}

// TestFresh: an index stands until it expires, not at that time any more.
func TestFresh(t *testing.T) {
	x := seventh(t)
	wants(t, x.Fresh(issued()), "")
	wants(t, x.Fresh(issued().Add(time.Hour-time.Nanosecond)), "")
	wants(t, x.Fresh(issued().Add(time.Hour)), "CHANNEL_EXPIRED")
	wants(t, x.Fresh(issued().AddDate(9, 0, 0)), "CHANNEL_EXPIRED")
	wants(t, x.Fresh(issued().Add(-skew)), "")
	wants(t, x.Fresh(issued().Add(-skew-time.Nanosecond)), verdict.Clock)
	x.proof.SignedAt = issued().Add(time.Minute)
	wants(t, x.Fresh(issued().Add(time.Minute-skew)), "")
	wants(t, x.Fresh(issued().Add(time.Minute-skew-time.Nanosecond)), verdict.Clock)
}

// TestOf: an index is of the project that was asked about, the first one too.
func TestOf(t *testing.T) {
	wants(t, seventh(t).Of("lantern"), "")
	for _, project := range []string{"torch", "Lantern", "lantern ", ""} {
		wants(t, seventh(t).Of(project), "CHANNEL_FORK")
	}
	if f := verdict.FindingOf("", seventh(t).Of("torch")); f.Want != "torch" || f.Got != "lantern" {
		t.Errorf("want %q, got %q", f.Want, f.Got)
	}
}

// TestNothingAnswersNothing: what nobody signed is no index, and the zero
// Index is none either.
func TestNothingAnswersNothing(t *testing.T) {
	_, err := Parse(verify.Evidence{}, policy.Policy{})
	wants(t, err, verdict.EvidenceMissing)
	wants(t, Index{}.Fresh(issued()), verdict.EvidenceMissing)
	_, err = Index{}.Find("stable")
	wants(t, err, verdict.EvidenceMissing)
}

func TestFind(t *testing.T) {
	x := seventh(t)
	got, err := x.Find("stable")
	if err != nil || got.Version != ver(t, "v0.2.0") || !got.Manifest.Equal(bundle("two")) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, name := range []string{"stable-0.2", "Stable", "stable ", "", "rc"} {
		_, err := x.Find(name)
		wants(t, err, verdict.EvidenceMissing)
	}
}

// TestNext: the next index takes over what does not change, forgets manifests
// that no channel stands for, and goes back only from what was withdrawn.
func TestNext(t *testing.T) {
	x := seventh(t)
	change := func(v string, channels ...string) Change {
		return Change{Name: "lantern", Channels: channels, Release: Release{ver(t, v), bundle(v)}, Issued: issued(), Life: time.Hour}
	}
	never := func(version.Version) bool { return false }
	gone := func(v version.Version) bool { return v.String() == "v0.2.0" }

	p, manifests, err := x.Next(change("v0.2.1", "stable", "stable-0.2"), never)
	if err != nil || p.Number != 8 || len(p.Channels) != 3 || len(manifests) != 2 || !manifests["v0.2.1"].Equal(bundle("v0.2.1")) || !manifests["v0.3.0-rc.1"].Equal(bundle("three")) {
		t.Errorf("%+v, %v, %v", p, manifests, err)
	}
	p, _, err = Index{}.Next(change("v0.2.1", "stable"), never)
	if err != nil || p.Number != 1 || len(p.Channels) != 1 {
		t.Errorf("the first: %+v, %v", p, err)
	}
	_, _, err = x.Next(change("v0.1.9", "stable"), never)
	wants(t, err, verdict.ChannelStale)
	_, _, err = x.Next(change("v0.1.9", "stable"), gone)
	wants(t, err, "")
	_, _, err = x.Next(change("v0.3.0-rc.2", "stable"), never)
	wants(t, err, verdict.StatementParse)
	_, _, err = x.Next(change("v0.3.0", "nightly"), never)
	wants(t, err, verdict.StatementParse)
}
