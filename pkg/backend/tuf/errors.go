package tuf

import (
	"errors"
	"fmt"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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
