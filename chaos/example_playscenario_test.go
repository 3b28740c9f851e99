package chaos_test

import (
	"bytes"
	"fmt"

	"github.com/quorumkit/redlock/chaos"
)

// One's own kit stands in the place of the textbook's.
func ExamplePlayScenario() {
	textbook, err := chaos.ScenarioKit("textbook Redlock")
	if err != nil {
		fmt.Println(err)
		return
	}
	redlock, err := chaos.ScenarioKit("redlock")
	if err != nil {
		fmt.Println(err)
		return
	}
	runs, err := chaos.PlayScenario("amnesia-majority", textbook, redlock)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, run := range runs {
		fmt.Println(run.About.Contender, "had two holders:", run.Verdict.Count(chaos.TwoHolders) > 0)
	}
	var page bytes.Buffer // or a file
	err = chaos.WritePage(&page, runs...)
	fmt.Println(page.Len() > 0, err)
	// Output:
	// textbook Redlock had two holders: true
	// redlock had two holders: false
	// true <nil>
}
