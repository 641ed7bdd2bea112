package gate

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/backend/tuf"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Opening is what a gate may have besides its profile. The zero Opening is that
// of k8s-verify-release without flags.
type Opening struct {
	// Reader reads the profile, at which time, and with which trust root if the
	// profile names none. The zero Reader reads it now, with the public-good
	// root from TUF; a policy with CEL rules needs a compiler.
	profile.Reader
	// Offline makes no connections.
	Offline bool
	// Transport replaces the default transport, which has limits on size and
	// time.
	Transport http.RoundTripper
	// OpenPlace opens a place of files; nil is [store.Open], which uses no
	// credentials.
	OpenPlace func(uri string, rt http.RoundTripper) (store.Place, error)
	// Named are the waivers that the user names besides those of the profile.
	Named Named
	// Sources are files with verification summaries of source revisions, by
	// verifiers that the policy lists under sources. The word "auto" looks for
	// those of a release in git notes.
	Sources []string
	// Declarations are files with declarations, signed in a role that the
	// policy lists under declares.
	Declarations []string
	// Switches read which requirements of the policy are in force; nil without
	// features.
	Switches func(ctx context.Context, p policy.Policy, v *verify.Verifier) (Switches, error)
}

// Open reads a profile, which is a file or the name of one that is built in, with
// all that it names, once: policy, trust root and lists of known defects and
// withdrawals. Every decision under the profile is made by the gate that it
// returns.
//
//	g, err := gate.Open(ctx, "profile.yaml", gate.Opening{})
//	if err != nil {
//		return err
//	}
//	v, err := g.Verify(ctx, "v1.2.3")
//	if err != nil {
//		return err
//	}
//	return v.Err()
func Open(ctx context.Context, path string, with Opening) (Gate, error) {
	with.complete()
	if with.Trust == nil {
		with.Trust = func() (trust.Root, error) { return publicGood(ctx, with) }
	}
	at := with.Reader
	if at.Now.IsZero() {
		at.Now = time.Now()
	}
	p, err := profile.Load(path, at)
	if err != nil {
		return Gate{}, err
	}
	v, err := verify.NewWith(p.TrustRoot, p.Policy.Verification())
	if err != nil {
		return Gate{}, err
	}
	named, err := with.Named.read(v, p)
	if err != nil {
		return Gate{}, err
	}
	var s Switches
	if with.Switches != nil {
		if s, err = with.Switches(ctx, p.Policy, v); err != nil {
			return Gate{}, err
		}
	}
	g := Under(p, v, named, s)
	g.opening = with
	sources, find, err := readSources(with.Sources, with.Declarations, v, p.Policy, at.Now)
	if err != nil {
		return Gate{}, err
	}
	g.find = find
	return g.WithSources(sources...), nil
}

// complete fills in the defaults.
func (o *Opening) complete() {
	if o.Transport == nil {
		o.Transport = transport.New(transport.Config{UserAgent: "waybill", Offline: o.Offline})
	}
	if o.OpenPlace == nil {
		o.OpenPlace = store.Open
	}
}

// publicGood is the trust root of the public-good instance: from TUF or,
// offline, the copy embedded in the program.
func publicGood(ctx context.Context, with Opening) (trust.Root, error) {
	if with.Offline {
		return trust.Embedded(), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return trust.Root{}, err
	}
	c := tuf.Config{Cache: filepath.Join(dir, "waybill", "trust"), Now: with.Now, Transport: with.Transport}
	if c.Now.IsZero() {
		c.Now = time.Now()
	}
	source, err := tuf.Remembered(c.Cache)
	if err != nil {
		return trust.Root{}, err
	}
	c.URL, c.Root = source.URL, source.Root
	targets, err := tuf.Current(ctx, c)
	if err != nil {
		return trust.Root{}, err
	}
	root, err := trust.Parse(targets.TrustedRoot())
	return root.CurrentOn(targets.Refreshed()), err
}

// Verify decides about the release of a version where the profile says that it
// is published, with all that belongs to it. An error means that no question
// could be asked; the error of the verdict, that it does not accept.
func (g Gate) Verify(ctx context.Context, release string) (*verdict.Verdict, error) {
	of, err := version.Parse(release)
	if err != nil {
		return nil, err
	}
	now := g.opening.Now
	if now.IsZero() {
		now = time.Now()
	}
	at, _, err := g.Places(of, profile.Release, Elsewhere{})
	if err != nil {
		return nil, err
	}
	decided, err := g.Decide(ctx, g.Release(of, profile.Release, at, now))
	if err != nil {
		return nil, err
	}
	return decided.Verdict, nil
}

// Named are the waivers that a user names.
type Named struct {
	// Exceptions are files of signed exceptions.
	Exceptions []string
	// Accept are the ids of known defects to set aside.
	Accept []string
	// Defects are files of known defects: bundles signed by the policy's
	// officer, or unsigned YAML, which explains and excuses nothing.
	Defects []string
}

// IsZero reports whether no waiver was named.
func (n Named) IsZero() bool { return len(n.Exceptions)+len(n.Accept)+len(n.Defects) == 0 }

// read reads the named files and verifies them by the profile's trust root and
// policy.
func (n Named) read(v *verify.Verifier, p profile.Profile) (Waivers, error) {
	w := Waivers{Accept: n.Accept}
	for _, path := range n.Defects {
		list, err := profile.ReadDefects(path, p.TrustRoot, p.Policy)
		if err != nil {
			return Waivers{}, err
		}
		w.Lists = append(w.Lists, list)
	}
	for _, path := range n.Exceptions {
		raw, err := store.ReadNamed(path, verify.MaxBundle)
		if err != nil {
			return Waivers{}, err
		}
		e, err := v.Attestation(raw)
		if err != nil {
			return Waivers{}, fmt.Errorf("%s: %w", path, err)
		}
		x, err := waiver.ParseException(e, p.Policy)
		if err != nil {
			return Waivers{}, fmt.Errorf("%s: %w", path, err)
		}
		w.Exceptions = append(w.Exceptions, x)
	}
	return w, nil
}
