package tuf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// subject is the subject of every finding of this package.
const subject = "trust root"

// The most bytes that a file may have, as in go-tuf and the Sigstore clients.
// Larger files are refused.
const (
	maxRoot      = 512_000
	maxTimestamp = 16_384
	maxSnapshot  = 2_000_000
	maxTargets   = 5_000_000
	maxFile      = 4 << 20
)

// errNotFound is the answer that a file does not exist.
var errNotFound = errors.New("the repository has no such file")

// errSlow ends a file that exceeds its total time, however steadily it comes.
var errSlow = errors.New("the file took too long")

// CheckURL refuses invalid repository addresses: anything but https (or http on
// loopback), and addresses with credentials, a query or a fragment.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return verdict.Wrap(verdict.Usage, subject, err)
	case u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return verdict.Refuse(verdict.Usage, subject, "repository %q: want https://HOST/PATH", u.Redacted())
	case u.Scheme == "https" || u.Scheme == "http" && transport.Loopback(u.Hostname()):
		return nil
	}
	return verdict.Refuse(verdict.Usage, subject, "repository %q: want https (http is for loopback only)", address)
}

// fetcher reads files of one repository. It sends no credentials.
type fetcher struct {
	client   *http.Client
	base     string
	patience time.Duration
}

// get reads the file at a path below the repository, of at most limit bytes.
func (f *fetcher) get(ctx context.Context, limit int64, path ...string) ([]byte, error) {
	where, err := url.JoinPath(f.base, path...)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, subject, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.patience, errSlow)
	defer cancel()
	raw, err := f.read(ctx, limit, where)
	var judged *verdict.Error
	switch {
	case err == nil || errors.As(err, &judged) || errors.Is(err, errNotFound):
		return raw, err
	case context.Cause(ctx) != nil:
		err = context.Cause(ctx)
	}
	return nil, verdict.Wrap(verdict.TrustDown, subject, fmt.Errorf("fetching %q: %w", where, err))
}

func (f *fetcher) read(ctx context.Context, limit int64, where string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, errNotFound
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %s", resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, verdict.Refuse(verdict.Limit, subject, "%q has more than %d bytes", where, limit)
	}
	return raw, nil
}

// refusal maps go-tuf's reason to refuse a role to a code. The caller must
// detect a version number below one seen before.
func refusal(role string, err error) error {
	var (
		judged    *verdict.Error
		expired   *metadata.ErrExpiredMetadata
		unsigned  *metadata.ErrUnsignedMetadata
		version   *metadata.ErrBadVersionNumber
		different *metadata.ErrLengthOrHashMismatch
	)
	code := verdict.TUFParse
	switch {
	case errors.As(err, &judged):
		return err
	case errors.As(err, &expired):
		code = "TUF_EXPIRED"
	case errors.As(err, &unsigned):
		code = "TUF_THRESHOLD"
	case errors.As(err, &version):
		code = "TUF_VERSION"
	case errors.As(err, &different):
		code = "TUF_HASH"
	}
	return verdict.Wrap(code, subject, fmt.Errorf("%s: %w", role, err))
}

// absent reports a required file that is missing.
func absent(role string, err error) error {
	if errors.Is(err, errNotFound) {
		return verdict.Wrap(verdict.TrustDown, subject, fmt.Errorf("%s: %w", role, err))
	}
	return err
}

// unproven reports that the cache alone does not suffice.
func unproven(format string, args ...any) error {
	return verdict.Refuse(verdict.TrustDown, subject, format, args...)
}

// strict refuses ambiguous JSON, and roles that need no signature, before
// go-tuf reads them.
func strict(raw []byte) error {
	var shape struct {
		Signed struct {
			Roles map[string]struct {
				Threshold int `json:"threshold"`
			} `json:"roles"`
		} `json:"signed"`
	}
	if err := strictjson.UnmarshalOpen(raw, &shape); err != nil {
		return err
	}
	for role, r := range shape.Signed.Roles {
		if r.Threshold < 1 {
			return &metadata.ErrUnsignedMetadata{Msg: fmt.Sprintf("the role %s requires only %d signatures", role, r.Threshold)}
		}
	}
	return nil
}

// judge lets go-tuf verify untrusted metadata.
func judge(role string, raw []byte, ask func([]byte) error) error {
	if err := strict(raw); err != nil {
		return err
	}
	return guarded(role, func() error { return ask(raw) })
}

// guarded turns a panic into a refusal: malformed metadata made go-tuf panic in
// the past (CVE-2026-23991).
func guarded(role string, ask func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = verdict.Refuse(verdict.TUFParse, subject, "%s: the library panics on it: %.200v", role, p)
		}
	}()
	return ask()
}
