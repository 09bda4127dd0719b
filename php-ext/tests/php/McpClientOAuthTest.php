<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\AuthorizationException;
use Pillion\Exception\InvalidInputException;
use Pillion\McpClient;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\Peer;
use Pillion\TokenStore;
use PHPUnit\Framework\TestCase;

/**
 * OAuth with real authorization servers, which consent to everything and redirect at once.
 *
 * @group extension
 */
final class McpClientOAuthTest extends TestCase
{
    private const REDIRECT_URI = 'http://127.0.0.1:8123/callback';

    public static function peers(): iterable
    {
        yield ['sdk-oauth'];
        yield ['fastmcp-oauth'];
    }

    private static function client(string $peer, ?TokenStore $store = null): McpClient
    {
        $client = new McpClient(Peer::url($peer), ['timeout' => 120, 'oauth' => ['redirect_uri' => self::REDIRECT_URI]]);
        return $client->setTokenStore($store);
    }

    /** A browser: opens the page and follows the redirect. */
    private static function browser(string $url): string
    {
        $context = stream_context_create(['http' => ['follow_location' => 0, 'ignore_errors' => true]]);
        file_get_contents($url, false, $context);
        foreach ($http_response_header as $header) {
            if (stripos($header, 'location:') === 0) {
                return trim(substr($header, 9));
            }
        }
        return self::REDIRECT_URI . '?error=access_denied';
    }

    private static function store(): TokenStore
    {
        return new class () implements TokenStore {
            /** @var array<string, array<string, mixed>> */
            public array $entries = [];

            public function load(string $key): ?array
            {
                TestCase::assertMatchesRegularExpression('/^[a-z0-9_]{1,64}$/', $key);
                // Like tokens from a database.
                return isset($this->entries[$key]) ? json_decode(json_encode($this->entries[$key]), true) : null;
            }

            public function save(string $key, ?array $tokens): void
            {
                if ($tokens === null) {
                    unset($this->entries[$key]);
                } else {
                    $this->entries[$key] = $tokens;
                }
            }
        };
    }

    /** @dataProvider peers */
    public function testE8TheUserAuthorizesInThisProcessAndTokensAreStored(string $peer): void
    {
        $store = self::store();
        $asked = 0;
        $client = self::client($peer, $store)->onAuthorization(function (string $url) use (&$asked): string {
            $asked++;
            return self::browser($url);
        });
        self::assertNotEmpty($client->listTools());
        self::assertNotEmpty($client->listTools());
        self::assertSame(1, $asked);
        self::assertCount(1, $store->entries);
        // Another object without a user, with the stored tokens.
        self::assertNotEmpty(self::client($peer, $store)->listTools());
        // Another user without tokens.
        Expect::exception(AuthorizationException::class, fn () => self::client($peer)->listTools());
    }

    /** @dataProvider peers */
    public function testE8AWebApplicationFinishesTheAuthorizationLater(string $peer): void
    {
        $store = self::store();
        ['url' => $url, 'state' => $state] = self::client($peer, $store)->startAuthorization();
        self::assertStringContainsString(rawurlencode($state), $url);
        self::assertCount(1, $store->entries);
        $back = self::browser($url);
        $e = Expect::exception(AuthorizationException::class, fn () => self::client($peer, self::store())->finishAuthorization($back));
        self::assertSame('denied', $e->errorCode);
        // In another request.
        $client = self::client($peer, $store);
        $client->finishAuthorization($back);
        self::assertCount(1, $store->entries, 'the tokens, and nothing that waits');
        self::assertNotEmpty($client->listTools());
        self::assertNotEmpty(self::client($peer, $store)->listTools());
        Expect::exception(AuthorizationException::class, fn () => $client->finishAuthorization($back));
    }

    public function testTheExceptionContainsTheAuthorizationUrl(): void
    {
        $store = self::store();
        $e = Expect::exception(AuthorizationException::class, fn () => self::client('fastmcp-oauth', $store)->callTool('add', ['a' => 1, 'b' => 2]));
        self::assertStringStartsWith('http', (string) $e->authorizationUrl);
        $client = self::client('fastmcp-oauth', $store);
        $client->finishAuthorization(self::browser($e->authorizationUrl));
        self::assertTrue($client->callTool('add', ['a' => 1, 'b' => 2])->success);
    }

    public function testTheTimeOfTheUserDoesNotCountForAStream(): void
    {
        $client = self::client('fastmcp-oauth')->onAuthorization(function (string $url): string {
            usleep(6_000_000);
            return self::browser($url);
        });
        self::assertTrue($client->streamTool('add', ['a' => 1, 'b' => 2], ['timeout' => 5])->getResult()->success);
    }

    public function testACallbackWithoutARedirectUrlIsAnError(): void
    {
        $client = self::client('fastmcp-oauth')->onAuthorization(fn () => null);
        Expect::exception(InvalidInputException::class, fn () => $client->ping(), 'null returned');
    }

    public function testARefusedAuthorizationIsAnError(): void
    {
        $client = self::client('fastmcp-oauth')->onAuthorization(function (string $url): string {
            parse_str((string) parse_url($url, PHP_URL_QUERY), $query);
            return self::REDIRECT_URI . '?' . http_build_query(['error' => 'access_denied', 'state' => $query['state']]);
        });
        Expect::exception(AuthorizationException::class, fn () => $client->ping());
    }

    public function testATokenStoreThatReturnsGarbageIsAnError(): void
    {
        $store = self::store();
        $client = self::client('fastmcp-oauth', new class () implements TokenStore {
            public function load(string $key): ?array
            {
                return ['tokens' => ['access_token' => ['hush']]];
            }

            public function save(string $key, ?array $tokens): void
            {
            }
        });
        $e = Expect::exception(InvalidInputException::class, fn () => $client->ping());
        self::assertStringContainsString('load() returned no valid tokens', $e->getMessage());
        self::assertStringNotContainsString('hush', $e->getMessage());
    }
}
