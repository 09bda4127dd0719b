<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Illuminate\Auth\GenericUser;
use PHPUnit\Framework\Attributes\DataProvider;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;
use Pillion\Fallback\Http\BodyStream;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Http\Request;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Hooks;
use Pillion\Laravel\Http\ConsoleController;
use Pillion\Laravel\Tests\Support\Browser;
use Pillion\Laravel\Tests\Support\ConsoleApp;
use Pillion\Laravel\Tests\Support\Laravel;
use Pillion\Laravel\Tests\Support\WebServer;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\SidecarProcess;

/** The sidecar's console in the application, requested over HTTP with the headers of a browser. */
final class ConsolePagesTest extends TestCase
{
    private static ?SidecarProcess $sidecar = null;

    private ?WebServer $web = null;

    public static function tearDownAfterClass(): void
    {
        self::$sidecar?->stop();
        self::$sidecar = null;
    }

    protected function setUp(): void
    {
        parent::setUp();
        $this->needsASidecar();
        self::$sidecar ??= new SidecarProcess([['label' => 'dice', 'url' => FakeServer::url(), 'require_approval' => 'always']]);
        if (BodyStream::open(self::$sidecar->socket, new Request('/console/sign-in'), new Deadline(30))->status() === 404) {
            self::markTestSkipped('This build of the sidecar has no console.');
        }
        $this->configure(['sidecar.socket' => self::$sidecar->socket]);
    }

    protected function tearDown(): void
    {
        $this->web?->stop();
        parent::tearDown();
    }

    /** @return array<string, string> */
    protected function files(): array
    {
        return ['config/view.php' => "<?php return ['paths' => [], 'compiled' => storage_path('framework/views')];", 'config/session.php' => "<?php return ['driver' => 'file', 'files' => storage_path('sessions'), 'lifetime' => 120, 'expire_on_close' => false,"
            . " 'lottery' => [0, 100], 'cookie' => 'session', 'path' => '/', 'domain' => null, 'secure' => false, 'http_only' => true, 'same_site' => 'lax'];"];
    }

    /**
     * Starts the application.
     *
     * @param ?list<string>        $allowed  the users who pass the gate; null for the package's own gate
     * @param array<string, mixed> $console  settings of `pillion.console`
     * @param list<string>         $commands Artisan commands that run before
     */
    private function browser(?array $allowed = ['ada@example.org'], array $console = [], string $environment = 'production', string $base = '', ?string $socket = null, array $commands = []): Browser
    {
        $app = $this->folder->path . '/config/app.php';
        file_put_contents($app, str_replace("'env' => 'testing'", "'env' => '$environment'", (string) file_get_contents($app)));
        @mkdir($this->folder->path . '/storage/sessions');
        $settings = ['sidecar' => ['socket' => $socket ?? self::$sidecar->socket, 'timeout' => 30], 'console' => $console];
        $this->folder->write('config/pillion.php', '<?php return ' . var_export($settings, true) . ';');
        $this->folder->write('config/console_test.php', '<?php return ' . var_export(['allowed' => $allowed], true) . ';');
        foreach ($commands as $command) {
            Laravel::artisan($this->folder->path, $command);
        }
        $this->web = new WebServer($this->folder->path, $base);
        return new Browser($this->web->url);
    }

    /** Calls a tool that needs approval; returns the path of the page of its approval. */
    private static function requestApproval(): string
    {
        static $calls = 0;
        try {
            Pillion::sidecar()->callTool('dice_roll', ['dice' => '1d' . ++$calls], ['user' => 'alice']);
        } catch (PillionException) {
            $approval = Pillion::sidecar()->listApprovals(['status' => 'pending'])[0];
            return "/pillion/approvals/{$approval['id']}";
        }
        throw new \LogicException('The call needed no approval');
    }

    /** @return array<string, mixed> */
    private static function approval(string $page): array
    {
        foreach (Pillion::sidecar()->listApprovals() as $approval) {
            if ($approval['id'] === basename($page)) {
                return $approval;
            }
        }
        throw new \LogicException("There is no approval $page");
    }

    /** @return array<string, array{string, string, list<string>}> base path, path of the console, Artisan commands */
    public static function paths(): array
    {
        return [
            'the default' => ['', 'pillion', []],
            'another path' => ['', 'admin/tools', []],
            'an application in a folder' => ['/shop', 'pillion', []],
            'cached routes and configuration' => ['', 'pillion', ['config:cache', 'route:cache']],
        ];
    }

    /**
     * @param list<string> $commands
     *
     * @dataProvider paths
     */
    #[DataProvider('paths')]
    public function test_the_console_is_below_the_configured_path(string $base, string $path, array $commands): void
    {
        $browser = $this->browser(console: ['path' => $path], base: $base, commands: $commands);
        $browser->get('/login/ada@example.org');
        $redirect = $browser->get("/$path");
        self::assertSame(303, $redirect['status'], $redirect['body']);
        // Relative to the requested URL, which ends with the last segment.
        self::assertSame('./' . basename($path) . '/home', $redirect['headers']['location']);
        self::assertSame('./home', $browser->get("/$path/")['headers']['location']);

        $page = $browser->get("/$path/home");
        self::assertSame(200, $page['status'], $page['body']);
        self::assertStringContainsString('ada@example.org', $page['body']);
        self::assertStringContainsString('href="./approvals"', $page['body']);
        self::assertStringStartsWith("default-src 'none'", $page['headers']['content-security-policy']);
        self::assertSame('DENY', $page['headers']['x-frame-options']);
        self::assertMatchesRegularExpression('/no-store/', $page['headers']['cache-control']);

        preg_match('#href="\./(assets/[^"]+\.css)"#', $page['body'], $style);
        $style = $browser->get("/$path/$style[1]");
        self::assertSame([200, 'text/css; charset=utf-8'], [$style['status'], strtolower($style['headers']['content-type'])]);
        // The response has the session's cookie, so a shared cache must not store it.
        self::assertStringContainsString('private', $style['headers']['cache-control']);
        self::assertStringNotContainsString('public', $style['headers']['cache-control']);

        self::assertSame(404, $browser->get("/$path/nothing")['status']);
        self::assertSame(405, $browser->finish($browser->open('DELETE', "/$path/home"))['status']);
        $head = $browser->finish($browser->open('HEAD', "/$path/home"));
        self::assertSame([200, ''], [$head['status'], $head['body']]);
        $tool = $browser->get("/$path/tools/calculator?unused=a%26b&unused=%C3%A4");
        self::assertSame(200, $tool['status'], $tool['body']);
    }

    public function test_only_the_console_can_be_reached(): void
    {
        $browser = $this->browser();
        $browser->get('/login/ada@example.org');
        foreach (['../api/v1/tools/', '..%2Fapi/v1/tools/', '%2e%2e/api/v1/tools/', './home', 'sign-in', 'sign%2Din', 'sign-in?code=x', 'sign-out', '/api/v1/tools/', 'tools/a%2Fb'] as $path) {
            $response = $browser->get("/pillion/$path");
            self::assertSame(404, $response['status'], $path);
            self::assertStringNotContainsString('calculator', $response['body'], $path);
        }
        self::assertSame(['session'], array_values(array_diff($browser->cookieNames(), ['XSRF-TOKEN'])));
    }

    public function test_the_console_can_be_switched_off(): void
    {
        $browser = $this->browser(console: ['path' => null]);
        $browser->get('/login/ada@example.org');
        self::assertSame(404, $browser->get('/pillion/home')['status']);
    }

    public function test_the_gate_admits_all_visitors_in_the_local_environment_only(): void
    {
        $browser = $this->browser(allowed: null, environment: 'local');
        $page = $browser->get('/pillion/home');
        self::assertSame(200, $page['status'], $page['body']);
        self::assertStringContainsString('guest', $page['body']);
        $this->web?->stop();

        $environment = $this->folder->path . '/config/app.php';
        file_put_contents($environment, str_replace("'env' => 'local'", "'env' => 'production'", (string) file_get_contents($environment)));
        $this->web = new WebServer($this->folder->path);
        $browser = new Browser($this->web->url);
        self::assertSame(403, $browser->get('/pillion/home')['status']);
        $browser->get('/login/ada@example.org');
        foreach (['', '/', '/home', '/live?types=call', '/calls/export?format=csv', '/nothing', '/sign-in'] as $path) {
            $response = $browser->get("/pillion$path");
            self::assertSame(403, $response['status'], $path);
            self::assertStringNotContainsString('assets/console', $response['body']);
        }
        self::assertSame(403, $browser->post('/pillion/approvals/x', [])['status']);
    }

    public function test_the_gate_of_the_application_decides(): void
    {
        $browser = $this->browser();
        self::assertSame(403, $browser->get('/pillion/home')['status'], 'a guest');
        $browser->get('/login/eve@example.org');
        self::assertSame(403, $browser->get('/pillion/home')['status']);
        self::assertSame(403, $browser->get('/pillion/home', ['X-Pillion-Console-User' => 'ada@example.org', 'X-Pillion-Console-Csrf' => str_repeat('x', 40)])['status']);
        $browser->get('/login/ada@example.org');
        self::assertSame(200, $browser->get('/pillion/home')['status']);
    }

    public function test_a_decision_is_recorded_with_the_name_of_the_user(): void
    {
        $browser = $this->browser(['ada@example.org', 'zoë@example.org']);
        foreach (['ada@example.org', 'zoë@example.org'] as $user) {
            $browser->get('/login/' . rawurlencode($user));
            $page = self::requestApproval();
            $headers = ['X-Pillion-Console-User' => 'eve', 'X-Pillion-User' => 'eve', 'X-Pillion-Console-Csrf' => str_repeat('x', 40)];
            $response = $browser->post($page, ['csrf' => $browser->csrf($page), 'decision' => 'approve', 'reason' => 'a & b'], $headers);
            self::assertSame(303, $response['status'], $response['body']);
            self::assertStringStartsWith('../', $response['headers']['location']);
            $approval = self::approval($page);
            self::assertSame(['approved', 'a & b'], [$approval['status'], $approval['reason']]);
            self::assertStringContainsString($user, $approval['decided_by']);
            self::assertStringNotContainsString('eve', $approval['decided_by']);
        }
    }

    public function test_a_forged_form_is_rejected(): void
    {
        $browser = $this->browser(['ada@example.org', 'eve@example.org']);
        $laravelToken = $browser->get('/login/ada@example.org')['body'];
        $other = new Browser((string) $this->web?->url);
        $other->get('/login/eve@example.org');
        $page = self::requestApproval();
        $csrf = $browser->csrf($page);
        $otherCsrf = $other->csrf($page);
        self::assertNotSame($csrf, $otherCsrf);
        self::assertNotSame($csrf, $laravelToken, "the console does not get the token of the application's forms");
        $decision = ['decision' => 'approve'];
        foreach ([
            'no token' => [$decision, []],
            'a token of another session' => [$decision + ['csrf' => $otherCsrf], []],
            "the application's token" => [$decision + ['csrf' => $laravelToken, '_token' => $laravelToken], []],
            'a token in a header' => [$decision, ['X-CSRF-TOKEN' => $laravelToken, 'X-Pillion-Console-Csrf' => $csrf]],
            'a token that the browser sends as the secret, too' => [$decision + ['csrf' => str_repeat('x', 40)], ['X-Pillion-Console-Csrf' => str_repeat('x', 40)]],
            'a foreign origin' => [$decision + ['csrf' => $csrf], ['Origin' => 'https://evil.example']],
            'another port' => [$decision + ['csrf' => $csrf], ['Origin' => 'http://127.0.0.1:9']],
            'the origin null' => [$decision + ['csrf' => $csrf], ['Origin' => 'null']],
            'no origin' => [$decision + ['csrf' => $csrf], ['Origin' => null]],
            'a page of another site' => [$decision + ['csrf' => $csrf], ['Sec-Fetch-Site' => 'cross-site']],
            'a host that the origin repeats' => [$decision + ['csrf' => $csrf], ['Origin' => 'https://evil.example', 'X-Forwarded-Host' => 'evil.example']],
        ] as $case => [$fields, $headers]) {
            $response = $browser->post($page, $fields, $headers);
            self::assertSame(403, $response['status'], "$case: {$response['body']}");
            self::assertSame('pending', self::approval($page)['status'], $case);
        }
        $guest = new Browser((string) $this->web?->url);
        self::assertSame(403, $guest->post($page, $decision + ['csrf' => $csrf])['status'], 'without a session');
        self::assertSame('pending', self::approval($page)['status']);

        $formToken = ['Origin' => null, 'Sec-Fetch-Site' => null];
        self::assertSame(419, $browser->post('/form', [], $formToken)['status'], "Laravel's own check still applies to the application");
        self::assertSame(200, $browser->post('/form', ['_token' => $laravelToken], $formToken)['status']);
        // Without the header with which newer versions of Laravel accept a form without a token.
        self::assertSame(303, $browser->post($page, $decision + ['csrf' => $csrf], ['Sec-Fetch-Site' => null])['status'], 'the genuine form');
        self::assertSame('approved', self::approval($page)['status']);

        $browser->get('/login/eve@example.org');
        $page = self::requestApproval();
        self::assertSame(403, $browser->post($page, $decision + ['csrf' => $csrf])['status'], 'a form of the previous user of the session');
        self::assertSame('pending', self::approval($page)['status']);
    }

    public function test_changes_arrive_while_the_stream_is_open(): void
    {
        $browser = $this->browser(console: ['stream_seconds' => 300]);
        $browser->get('/login/ada@example.org');
        $stream = $browser->open('GET', '/pillion/live?types=call,approval', ['Accept' => 'text/event-stream']);
        $head = implode("\n", stream_get_meta_data($stream)['wrapper_data']);
        self::assertMatchesRegularExpression('#^Content-Type: text/event-stream#mi', $head);
        self::assertSame([":\n", "\n"], [fgets($stream), fgets($stream)]);
        // The open stream does not block the session.
        self::assertSame(200, $browser->get('/pillion/home')['status']);
        self::requestApproval();
        do {
            $line = fgets($stream);
        } while ($line === ":\n" || $line === "\n");
        self::assertSame(["event: change\n", "data: {}\n"], [$line, fgets($stream)]);
        fclose($stream);
    }

    public function test_a_stream_ends_after_the_configured_time(): void
    {
        $browser = $this->browser(console: ['stream_seconds' => 1]);
        $browser->get('/login/ada@example.org');
        $startedAt = microtime(true);
        $response = $browser->get('/pillion/live?types=server');
        self::assertSame(200, $response['status']);
        self::assertStringStartsWith(":\n\n", $response['body']);
        self::assertGreaterThan(0.9, microtime(true) - $startedAt);
    }

    public function test_live_updates_can_be_switched_off(): void
    {
        $browser = $this->browser(console: ['stream_seconds' => 0]);
        $browser->get('/login/ada@example.org');
        self::assertSame("event: off\ndata: {}\n\n", $browser->get('/pillion/live?types=call')['body']);
    }

    public function test_exports_are_streamed(): void
    {
        Pillion::sidecar()->callTool('calculator', ['expression' => '1 + 1']);
        $browser = $this->browser();
        $browser->get('/login/ada@example.org');
        $export = $browser->get('/pillion/calls/export?format=csv');
        self::assertSame(200, $export['status'], $export['body']);
        self::assertSame('attachment; filename="calls.csv"', $export['headers']['content-disposition']);
        self::assertStringContainsString('calculator', $export['body']);
        $invalid = $browser->get('/pillion/calls/export?format=csv&status=nonsense');
        self::assertGreaterThanOrEqual(400, $invalid['status'], $invalid['body']);
    }

    public function test_without_a_sidecar_the_page_says_what_to_do(): void
    {
        $browser = $this->browser(socket: '/nowhere/pillion.sock');
        $browser->get('/login/ada@example.org');
        $page = $browser->get('/pillion/home');
        self::assertSame(503, $page['status']);
        self::assertStringContainsString('no process listens on /nowhere/pillion.sock', $page['body']);
        self::assertStringContainsString('pillion serve', $page['body']);
        self::assertStringContainsString('text/plain', $page['headers']['content-type']);
    }

    public function test_a_missing_session_and_an_invalid_name_are_errors(): void
    {
        ConsoleApp::prepare($this->app);
        $this->app->make('Illuminate\\Contracts\\Auth\\Access\\Gate')->define(ConsoleController::GATE, fn ($user = null) => true);
        $this->withoutExceptionHandling();
        foreach (["a\r\nx-pillion-user: eve", str_repeat('a', 257), "\xff"] as $name) {
            Pillion::resolveConsoleUserUsing(fn () => $name);
            try {
                $this->get('/pillion/home');
                self::fail('The name was accepted');
            } catch (InvalidInputException $exception) {
                self::assertStringContainsString('Pillion::resolveConsoleUserUsing()', $exception->getMessage());
            }
        }
        $this->app->make('router')->middlewareGroup('web', []);
        try {
            $this->get('/pillion/home');
            self::fail('There is no session');
        } catch (\LogicException $exception) {
            self::assertStringContainsString('pillion.console.middleware', $exception->getMessage());
        }
    }

    public function test_the_name_of_a_user(): void
    {
        $hooks = $this->app->make(Hooks::class);
        self::assertSame('a@example.org', $hooks->consoleUser(new GenericUser(['id' => 7, 'email' => 'a@example.org'])));
        self::assertSame('7', $hooks->consoleUser(new GenericUser(['id' => 7])));
        self::assertSame('7', $hooks->consoleUser(new GenericUser(['id' => 7, 'email' => ''])));
        self::assertNull($hooks->consoleUser(null));
        Pillion::resolveConsoleUserUsing(fn ($user) => $user?->name);
        self::assertSame('Ada', $hooks->consoleUser(new GenericUser(['id' => 7, 'email' => 'a@example.org', 'name' => 'Ada'])));
        self::assertNull($hooks->consoleUser(null));
    }
}
