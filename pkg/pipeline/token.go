package pipeline

import (
	"context"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// look is how often a token file is read again while a fresh token is waited
// for.
const look = 2 * time.Second

// renewed is a token file that a fresh token is written into while a release
// goes on: steps last longer than tokens. A step that has ended must not be
// lost because its provenance cannot be signed in that moment, and provenance
// that is not signed is never written; so what the step made stays where it is,
// and the file is watched for as long as there is patience.
type renewed struct {
	token.File
	clock func() time.Time
	work  sign.Work
	// begun says that something was done already that would be lost; before
	// that an old token is refused at once.
	begun bool
}

// Token reads the file, until there is a token in it that lives.
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
			r.work.Report(ctx, "waiting for a fresh token in %s, which is read every %s, given up in %s: %s",
				string(r.File), look, left.Round(time.Second), verdict.FindingOf("", dead).Message)
		}
		if err := pause(ctx, min(look, left)); err != nil {
			return "", err
		}
	}
	return text, nil
}

// read reads the token that is in the file now, if it can be used.
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
