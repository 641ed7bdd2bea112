package cli

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/waybill-release/waybill/pkg/backend/kit"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/tuf"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Trust are the flags that choose the trust root: a file, the copy that is built
// into this program, or a TUF repository.
type Trust struct {
	Cache   string
	File    string
	Domain  string // empty, github or github:TENANT
	Offline bool
	MinRoot int64
	Moment  Moment

	asked bool // the trust root was read, from a repository or instead of it
	kit   string
}

// AddFlags adds the flags of the cache.
func (o *Trust) AddFlags(cmd *cobra.Command) {
	o.AddFloor(cmd)
	o.Moment.AddFlags(cmd)
}

// AddFloor adds the flags of the cache, without --now.
func (o *Trust) AddFloor(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.Cache, "cache", "", "directory that caches the trust root (default waybill/trust in the user's cache directory)")
	cmd.Flags().Int64Var(&o.MinRoot, "min-root", 0, "lowest accepted version of the TUF repository's root metadata, also without a cache")
}

// AddChoice adds the flags that use another source than the repository.
func (o *Trust) AddChoice(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.File, "trusted-root", "", "Sigstore trusted_root.json to use, instead of a TUF repository")
	cmd.Flags().StringVar(&o.Domain, "trust", "", "trust domain: github for GitHub's own Sigstore instance (private repositories, immutable releases), github:TENANT for a tenant of GitHub Enterprise Cloud; it has no logs, so timestamps prove the time")
	cmd.Flags().BoolVar(&o.Offline, "offline", false, "use the public-good trust root, or that of --trust github, that is built into this program, instead of a TUF repository")
}

// Config is the configuration of the TUF client. The caller adds the repository.
func (o *Trust) Config(t http.RoundTripper) (tuf.Config, error) {
	now, err := o.Moment.Time()
	if err != nil {
		return tuf.Config{}, err
	}
	dir := o.Cache
	if dir == "" {
		if dir, err = os.UserCacheDir(); err != nil {
			return tuf.Config{}, verdict.Wrap(verdict.Usage, "--cache", err)
		}
		dir = filepath.Join(dir, "waybill", "trust")
	}
	return tuf.Config{Cache: dir, Now: now, MinRoot: o.MinRoot, Transport: t}, nil
}

// Remembered is Config with the repository of the trust domain, of the cache, or else
// the public-good one.
func (o *Trust) Remembered(t http.RoundTripper) (tuf.Config, error) {
	c, err := o.Config(t)
	if err != nil {
		return tuf.Config{}, err
	}
	if o.Domain != "" {
		from, target, err := tuf.GitHub(o.Domain)
		c.Cache = filepath.Join(c.Cache, strings.ReplaceAll(o.Domain, ":", "-"))
		c.URL, c.Root, c.Files = from.URL, from.Root, []string{target}
		return c, err
	}
	source, err := tuf.Remembered(c.Cache)
	if err != nil {
		return tuf.Config{}, err
	}
	c.URL, c.Root = source.URL, source.Root
	return c, nil
}

// Root is the chosen trust root, or the cached one if none was chosen. It makes no
// request.
func (o *Trust) Root(ctx context.Context) (render.TrustRoot, error) {
	return o.root(func(c tuf.Config) (tuf.Targets, error) { return tuf.Load(ctx, c) })
}

// ToJudge is the chosen trust root, to verify with. If none was chosen it is that
// of the repository, which is asked once a day. A clock that is earlier than the
// date of the built-in copy is wrong, and refused.
func (o *Trust) ToJudge(ctx context.Context) (render.TrustRoot, error) {
	if r, err := o.carried(ctx); err != nil || !r.Root.IsZero() {
		return r, err
	}
	r, err := o.root(func(c tuf.Config) (tuf.Targets, error) { return tuf.Current(ctx, c) })
	if err == nil && o.Offline && r.Now.Before(r.Date) {
		return render.TrustRoot{}, verdict.Refuse(verdict.Clock, "clock", "the clock says %s, but the trust root that is built into this program is of %s",
			r.Now.UTC().Format(time.RFC3339), r.Date.Format(time.DateOnly))
	}
	return r, err
}

// carried is the trust root of a TUF repository in a kit, if there is one. Signatures
// must lead to it from the TUF root that is built in, or that waybill trust init chose.
// It is of the day that the kit says, when its metadata must have been valid. One before
// the built-in trust root does not count.
func (o *Trust) carried(ctx context.Context) (r render.TrustRoot, err error) {
	if o.kit == "" {
		return r, nil
	}
	files, err := store.Open(o.kit+"/"+kit.Trust, nil)
	if err != nil {
		return r, err
	}
	state, err := store.Read(ctx, files, "tuf.json", 64<<20)
	c, failed := o.Remembered(nil)
	if errors.Is(err, store.ErrNotFound) {
		return r, nil
	}
	if err := errors.Join(err, failed); err != nil {
		return r, err
	}
	now, t := c.Now, tuf.Targets{}
	date, _ := store.Read(ctx, files, "root.date", 1<<10) // without one, no day
	if c.Now, err = time.Parse(time.DateOnly, string(date)); err == nil && c.URL == tuf.PublicGoodURL && c.Now.Before(trust.Embedded().Date()) {
		return r, nil
	}
	if err == nil {
		t, err = tuf.Chained(ctx, c, state)
	}
	if err != nil || c.Now.After(now) {
		return r, &verdict.Error{Finding: verdict.Find("KIT_SELF_TRUST", o.kit, "no signatures lead from the TUF root of this program to the trust root in the kit, of the day %.10q", date).
			Advise("name a trust root in your profile, or have waybill trust init trust the repository that the maker of the kit uses"), Cause: err}
	}
	r, err = Fetched(c, t)
	r.Now = now
	return r, err
}

// checkDomain refuses a trust domain that is unknown, or that another flag contradicts.
func (o *Trust) checkDomain() error {
	_, target, err := tuf.GitHub(cmp.Or(o.Domain, "github"))
	if o.Domain != "" && (o.File != "" || o.Offline && target != tuf.TrustedRootFile) {
		return verdict.Refuse(verdict.Usage, "--trust", "given with --trusted-root, or for a tenant with --offline, whose root is not built in; give one of the two")
	}
	return err
}

func (o *Trust) root(ask func(tuf.Config) (tuf.Targets, error)) (render.TrustRoot, error) {
	now, err := o.Moment.Time()
	if err != nil {
		return render.TrustRoot{}, err
	}
	if err := o.checkDomain(); err != nil {
		return render.TrustRoot{}, err
	}
	switch {
	case o.Offline && o.File != "":
		return render.TrustRoot{}, verdict.Refuse(verdict.Usage, "--offline", "given with --trusted-root; give one of the two")
	case o.MinRoot != 0 && (o.Offline || o.File != ""):
		return render.TrustRoot{}, verdict.Refuse(verdict.Usage, "--min-root", "the flag is for a TUF repository, and none is used with --offline or --trusted-root")
	case o.Offline && o.Domain != "":
		root, date := tuf.EmbeddedGitHub()
		return render.TrustRoot{Root: root, Source: "the copy of GitHub's own instance that is built into this program", Date: date, Now: now}, nil
	case o.Offline:
		root := trust.Embedded()
		return render.TrustRoot{Root: root, Source: "the copy that is built into this program", Date: root.Date(), Now: now}, nil
	case o.File != "":
		raw, err := store.ReadNamed(o.File, trust.MaxSize)
		if err != nil {
			return render.TrustRoot{}, err
		}
		root, err := trust.Parse(raw)
		return render.TrustRoot{Root: root, Source: o.File, Now: now}, err
	}
	c, err := o.Remembered(Transport(false))
	if err != nil {
		return render.TrustRoot{}, err
	}
	t, err := ask(c)
	if err != nil {
		return render.TrustRoot{}, err
	}
	return Fetched(c, t)
}

// Fetched describes the trust root that a repository delivered.
func Fetched(c tuf.Config, t tuf.Targets) (render.TrustRoot, error) {
	root, err := trust.Parse(t.File(append(c.Files, tuf.TrustedRootFile)[0]))
	chain, failed := t.State()
	if err := errors.Join(err, failed); err != nil {
		return render.TrustRoot{}, err
	}
	v := t.Versions()
	return render.TrustRoot{
		Root: root.CurrentOn(t.Refreshed()).Chained(chain), Source: c.URL, Date: t.Refreshed(), Now: c.Now, Expires: t.Expires(),
		Metadata: fmt.Sprintf("root %d, timestamp %d, snapshot %d, targets %d", v.Root, v.Timestamp, v.Snapshot, v.Targets),
	}, nil
}

// Reader reads the trust root for a profile that names none.
func (o *Trust) Reader(ctx context.Context) func() (trust.Root, error) {
	return func() (trust.Root, error) {
		o.asked = true
		r, err := o.ToJudge(ctx)
		return r.Root, err
	}
}

// Used refuses the flags of a repository that is not used because the profile
// names a trust root itself.
func (o *Trust) Used() error {
	if o.asked || o.MinRoot == 0 && o.Cache == "" {
		return nil
	}
	return verdict.Refuse(verdict.Usage, "--min-root and --cache", "the profile names a trusted root, so no TUF repository is used; leave them out")
}

// FallbackRoots makes TLS trust the built-in authorities if the system has no
// directory for certificates, such as an image from scratch. Call it once, at
// the start. It looks for directories first, because to parse all authorities
// would slow down every start.
func FallbackRoots() {
	for _, dir := range []string{"/etc/ssl", "/etc/pki"} {
		if _, err := os.Stat(dir); err == nil {
			return
		}
	}
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		cert, err := x509.ParseCertificate(root.Certificate)
		switch {
		case err != nil: // an authority fewer is trusted
		case root.Constraint != nil:
			pool.AddCertWithConstraint(cert, root.Constraint)
		default:
			pool.AddCert(cert)
		}
	}
	x509.SetFallbackRoots(pool) // counts only if the system has none
}
