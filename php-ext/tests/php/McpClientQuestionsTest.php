<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\McpClient;
use PHPUnit\Framework\TestCase;

/**
 * What a server asks where it cannot be told on whose behalf: on the one stream of a program.
 *
 * @group extension
 */
final class McpClientQuestionsTest extends TestCase
{
    private static int $count = 0;

    /** Each has a server of its own. */
    private static function client(): McpClient
    {
        return new McpClient(
            ['command' => ['python3', __DIR__ . '/../servers/asks.py', (string) self::$count++]],
            ['timeout' => 10, 'label' => 'asks'],
        );
    }

    private static function text(object $result): mixed
    {
        return json_decode($result->result['content'][0]['text'], true, flags: JSON_THROW_ON_ERROR);
    }

    public function testAQuestionDoesNotGoToAStreamThatNobodyReads(): void
    {
        $client = self::client()->onSampling(fn () => 'because');
        $asks = $client->streamTool('ask_when_held');
        $held = $client->streamTool('hold');
        self::assertSame('because', self::text($asks->getResult())['content']['text']);
        unset($held);
    }

    public function testAQuestionGoesToTheCallThatPHPIsIn(): void
    {
        $client = self::client()->onElicitation(fn () => ['action' => 'accept', 'content' => []]);
        $held = null;
        $result = $client->callTool('ask_when_held', ['method' => 'elicitation/create'], [
            'on_progress' => function () use ($client, &$held): void {
                $held = $client->streamTool('hold');
            },
        ]);
        self::assertSame(['action' => 'accept', 'content' => []], self::text($result));
    }

    public function testAQuestionToAStreamThatNobodyReadsIsAnsweredByTheNextCall(): void
    {
        $asked = 0;
        $client = self::client()->onSampling(function () use (&$asked): string {
            $asked++;
            return 'because';
        });
        $asks = $client->streamTool('ask');
        $client->ping();
        self::assertSame(1, $asked);
        self::assertSame('because', self::text($asks->getResult())['content']['text']);
        self::assertSame(1, $asked);
    }

    public function testAQuestionThatAnEndedCallLeavesIsHandedOn(): void
    {
        $client = self::client()->onSampling(fn () => 'because');
        $mark = tempnam(sys_get_temp_dir(), 'pillion');
        unlink($mark);
        $asks = $client->streamTool('ask', ['mark' => $mark]);
        while (!file_exists($mark)) {
            usleep(10_000);
            clearstatcache();
        }
        unlink($mark);
        usleep(100_000);
        $answer = $client->streamTool('answer');
        unset($asks);
        self::assertSame('because', self::text($answer->getResult())['content']['text']);
    }

    public function testAQuestionThatAnExceptionLeavesIsHandedOn(): void
    {
        $client = self::client()->onSampling(fn () => 'because');
        $answer = $client->streamTool('answer');
        $held = null;
        try {
            $client->callTool('ask_when_held', [], ['on_progress' => function () use ($client, &$held): void {
                $held = $client->streamTool('hold');
                throw new \DomainException('enough');
            }]);
            self::fail('It went on');
        } catch (\DomainException) {
            self::assertSame('because', self::text($answer->getResult())['content']['text']);
        }
    }

    public function testAQuestionThatFindsNobodyIsRefused(): void
    {
        $client = self::client()->onSampling(fn () => throw new \DomainException('no'));
        try {
            $client->callTool('ask');
            self::fail('It went on');
        } catch (\DomainException) {
            self::assertSame('Nobody is there to answer', self::text($client->callTool('answer'))['message']);
        }
    }
}
