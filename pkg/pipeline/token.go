package pipeline

import (
	"context"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// tokenReadInterval is how often a token file is read again while the signer
// waits for a fresh token.
const tokenReadInterval = 2 * time.Second

// renewed is a token file whose token is replaced during a release, because
// steps can last longer than tokens. A finished step must not be lost because
// its provenance cannot be signed at that moment, and unsigned provenance is
// never written. Therefore the outputs of the step are kept, and the file is
// read until the patience of the signer ends.
type renewed struct {
	token.File
	clock func() time.Time
	work  sign.Work
	// begun means that finished work would be lost; before that, an expired
	// token is refused at once.
	begun bool
}

// Token reads the file until it contains a valid token.
func (r *renewed) Token(ctx context.Context) (string, error) {
	text, dead := r.read(ctx)
	switch {
	case dead == nil:
		r.begun = true
		return text, nil
	case !r.begun:
		return "", dead
	}
	pause := r.work.Pause
	if pause == nil {
		pause = transport.Sleep
	}
	began, told := r.clock(), time.Time{}
	for ; dead != nil; text, dead = r.read(ctx) {
		now := r.clock()
		left := r.work.Patience - now.Sub(began)
		if left <= 0 {
			return "", dead
		}
		if told.IsZero() || now.Sub(told) >= 30*time.Second {
			told = now
			r.work.Report(ctx, "waiting for a fresh token in %s, read every %s, for at most %s: %s",
				string(r.File), tokenReadInterval, left.Round(time.Second), verdict.FindingOf("", dead).Message)
		}
		if err := pause(ctx, min(tokenReadInterval, left)); err != nil {
			return "", err
		}
	}
	return text, nil
}

// read reads the token that is in the file now, and checks it.
func (r *renewed) read(ctx context.Context) (string, error) {
	text, err := r.File.Token(ctx)
	if err != nil {
		return "", err
	}
	said, err := token.Read(text)
	if err != nil {
		return "", err
	}
	return text, said.Check(r.clock())
}
