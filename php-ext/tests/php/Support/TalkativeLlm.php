<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A language model that says very much, and how much of that it got rid of: `sent` bytes, to so many clients `talking`. */
final class TalkativeLlm
{
    use TellsWhatItSaw;

    /** Below which it speaks as OpenAI's chat completions. */
    public readonly string $url;

    public function __construct()
    {
        $this->server = new ServerScript(['python3'], 'talkative_llm.py');
        $this->url = "http://127.0.0.1:{$this->server->firstLine}/v1";
    }

    /** Waits until it gets rid of no more, or of more than `$bytes`; how much that is. */
    public function sentAtRest(int $bytes): int
    {
        $sent = -1;
        $quiet = 0;
        $this->seenWhen(function (array $seen) use (&$sent, &$quiet, $bytes): bool {
            $quiet = $seen['sent'] === $sent ? $quiet + 1 : 0;
            $sent = $seen['sent'];
            return $quiet === 25 || $sent > $bytes;
        });
        return $sent;
    }
}
