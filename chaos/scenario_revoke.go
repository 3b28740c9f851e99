package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/lab/trace"
)

// A holder that is asked to give up.
func revocationScenarios() []Scenario { return []Scenario{lateRevocation()} }

func lateRevocation() Scenario {
	return Scenario{
		Name:     "late-revocation",
		Claim:    "a holder is asked to give up, and has done so and holds anew when the message arrives: the hold that it has now was not asked for; asked for that, too, it hears of it and gives it up",
		Lesson:   "ask for a hold, not for a name: what comes late then speaks of what is over",
		Showings: guarded(trace.NameRenewing),
		judge:    trace.Judge{Progress: soon},
		script:   revokedLate,
	}
}

func revokedLate(ctx context.Context, s *scene) error {
	asks := published{Stage: s.stage, sent: make(chan struct{})}
	ann, err := s.enter("ann")
	if err != nil {
		return err
	}
	bob, err := s.enterWith("bob", &asks)
	if err != nil {
		return err
	}
	if err := s.rehearse(ctx, ann, bob); err != nil {
		return err
	}
	revocable := request{Resources: []string{scenarioResource}, Revocable: true}
	first, err := s.waitsFor(ctx, ann, revocable)
	if err != nil {
		return err
	}
	late := Fault{Kind: Slow, Client: bob.Name, Node: Everything, Delay: onItsWay / 3}
	if err := s.breakNow(late); err != nil {
		return err
	}
	revoked := bob.revokes(ctx)
	select { // bob has read whose it is, and what he sends for that is on its way
	case <-asks.sent:
	case err := <-revoked:
		return errors.Join(errors.New("bob asked nobody"), err)
	}
	_ = first.Release(ctx)
	second, err := s.waitsFor(ctx, ann, revocable)
	if err != nil {
		return err
	}
	if err := <-revoked; err != nil {
		return err
	}
	time.Sleep(aWhile)
	select {
	case <-second.Revoked():
		return errors.New("ann was asked for a hold by a message of one before")
	default:
	}
	if err := s.mend(late); err != nil {
		return err
	}
	revoked = bob.revokes(ctx)
	select {
	case <-second.Revoked():
	case <-time.After(scenarioLease):
		return errors.New("ann was not told that she was asked")
	}
	err = second.Write(ctx)
	_ = second.Release(ctx)
	return errors.Join(err, <-revoked)
}

// revokes has the actor's library ask for the scene's resource.
func (a *actor) revokes(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	r, ok := a.contender.(revoker)
	if !ok {
		done <- fmt.Errorf("%s's library can't ask for a hold", a.Name)
		return done
	}
	a.history.Add(Record{Kind: trace.Noted, Client: a.Name, Resource: scenarioResource, Text: "asks for it"})
	go func() { done <- r.Revoke(ctx, scenarioResource) }()
	return done
}

// published is a stage that tells when a client first publishes something.
type published struct {
	Stage

	once sync.Once
	sent chan struct{}
}

// Connect is [Stage.Connect].
func (p *published) Connect(client string) ([]redis.UniversalClient, error) {
	nodes, err := p.Stage.Connect(client)
	if err == nil {
		overhear(nodes, ears{sent: func(data []byte) {
			if bytes.Contains(bytes.ToLower(data), []byte("\r\npublish\r\n")) {
				p.once.Do(func() { close(p.sent) })
			}
		}})
	}
	return nodes, err
}
