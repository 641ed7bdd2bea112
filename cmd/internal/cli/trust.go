package cli

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/tuf"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Trust are the flags that say whose authorities are believed: those of a
// file, those of the copy that this program carries, or those that a
// repository vouches for through TUF.
type Trust struct {
	Cache   string
	File    string
	Offline bool
	MinRoot int64
	Moment  Moment

	asked bool // a repository, or what stands for it
}

// AddFlags adds the flags of the cache.
func (o *Trust) AddFlags(cmd *cobra.Command) {
	o.AddFloor(cmd)
	o.Moment.AddFlags(cmd)
}

// AddFloor adds the flags of the cache, without the time of judgement.
func (o *Trust) AddFloor(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.Cache, "cache", "", "directory in which trust is remembered (default waybill/trust in the user's cache directory)")
	cmd.Flags().Int64Var(&o.MinRoot, "min-root", 0, "least version of the repository's root metadata that will do, also where the cache is gone")
}

// AddChoice adds the flags that choose something else than the repository.
func (o *Trust) AddChoice(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.File, "trusted-root", "", "Sigstore trusted_root.json to believe, instead of asking a repository")
	cmd.Flags().BoolVar(&o.Offline, "offline", false, "believe the public-good copy that this program carries, instead of asking a repository")
}

// Config is how TUF is asked, as of now; from where is left to the caller.
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

// Remembered is Config with the source that the cache was initialised with,
// or the public-good one.
func (o *Trust) Remembered(t http.RoundTripper) (tuf.Config, error) {
	c, err := o.Config(t)
	if err != nil {
		return tuf.Config{}, err
	}
	source, err := tuf.Remembered(c.Cache)
	if err != nil {
		return tuf.Config{}, err
	}
	c.URL, c.Root = source.URL, source.Root
	return c, nil
}

// Root is the chosen trust root; what was fetched before, if none was chosen.
// Nobody is asked.
func (o *Trust) Root(ctx context.Context) (render.TrustRoot, error) {
	return o.root(func(c tuf.Config) (tuf.Targets, error) { return tuf.Load(ctx, c) })
}

// ToJudge is the chosen trust root for judging with; if none was chosen, that
// of the repository, which is asked unless it was on this day. A clock that
// stands before the day on which the carried copy was current is wrong.
func (o *Trust) ToJudge(ctx context.Context) (render.TrustRoot, error) {
	r, err := o.root(func(c tuf.Config) (tuf.Targets, error) { return tuf.Current(ctx, c) })
	if err == nil && o.Offline && r.Now.Before(r.Date) {
		return render.TrustRoot{}, verdict.Refuse(verdict.Clock, "clock", "it says %s, but the trust root that this program carries is of %s",
			r.Now.UTC().Format(time.RFC3339), r.Date.Format(time.DateOnly))
	}
	return r, err
}

func (o *Trust) root(ask func(tuf.Config) (tuf.Targets, error)) (render.TrustRoot, error) {
	now, err := o.Moment.Time()
	if err != nil {
		return render.TrustRoot{}, err
	}
	switch {
	case o.Offline && o.File != "":
		return render.TrustRoot{}, verdict.Refuse(verdict.Usage, "--offline", "a file was named by --trusted-root: choose one")
	case o.MinRoot != 0 && (o.Offline || o.File != ""):
		return render.TrustRoot{}, verdict.Refuse(verdict.Usage, "--min-root", "it is a floor of a repository, and none is asked")
	case o.Offline:
		root := trust.Embedded()
		return render.TrustRoot{Root: root, Source: "the copy that this program carries", Date: root.Date(), Now: now}, nil
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

// Fetched describes what a repository vouches for.
func Fetched(c tuf.Config, t tuf.Targets) (render.TrustRoot, error) {
	root, err := trust.Parse(t.TrustedRoot())
	if err != nil {
		return render.TrustRoot{}, err
	}
	v := t.Versions()
	return render.TrustRoot{
		Root: root, Source: c.URL, Date: t.Refreshed(), Now: c.Now, Expires: t.Expires(),
		Metadata: fmt.Sprintf("root %d, timestamp %d, snapshot %d, targets %d", v.Root, v.Timestamp, v.Snapshot, v.Targets),
	}, nil
}

// Reader is how a profile that names no trust root comes to one.
func (o *Trust) Reader(ctx context.Context) func() (trust.Root, error) {
	return func() (trust.Root, error) {
		o.asked = true
		r, err := o.ToJudge(ctx)
		return r.Root, err
	}
}

// Used refuses flags of a repository that nobody had to ask, because the
// profile names a trust root itself.
func (o *Trust) Used() error {
	if o.asked || o.MinRoot == 0 && o.Cache == "" {
		return nil
	}
	return verdict.Refuse(verdict.Usage, "--min-root and --cache", "the profile names a trusted root, so no repository is asked")
}
