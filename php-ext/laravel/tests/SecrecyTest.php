<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Models\ModelDirectory;
use Pillion\Laravel\PillionManager;
use Pillion\Laravel\Servers\ServerDirectory;
use Pillion\Laravel\Tests\Fixtures\OwnServerTool;
use Pillion\Laravel\Tests\Support\Dumps;
use Pillion\Laravel\Tools\ApplicationTools;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Throwable;

/** No dump, log, queue or exception contains a configured credential. */
final class SecrecyTest extends TestCase
{
    private const SECRET = 's3cret';

    protected function setUp(): void
    {
        parent::setUp();
        // Every reference to the application leads to these objects.
        config(['services.other.key' => self::SECRET]);
        $this->configure(['approvals.tools' => ['get_time' => 'always-ask'], 'servers' => [
            'dice' => ['url' => FakeServer::url(), 'timeout' => 5, 'token' => self::SECRET],
            'files' => ['command' => ['files', '--password=s3cret'], 'env' => ['KEY' => self::SECRET], 'register' => false],
            'web' => [
                'url' => 'https://app:s3cret@mcp.example.org/?key=s3cret',
                'options' => ['oauth' => ['client_secret' => self::SECRET]],
                'register' => false,
            ],
            'own' => ['class' => OwnServerTool::class, 'server_url' => 'https://mcp.example.org/', 'api_key' => self::SECRET],
        ]]);
        if (!extension_loaded('pillion')) {
            // The library gets its tools from a sidecar, and accepts no token.
            $this->configure(['servers.dice.register' => false]);
        }
        $this->configure(['models' => ['demo' => [
            'provider' => 'openai',
            'api_key' => self::SECRET,
            'headers' => ['x-key' => self::SECRET],
            'function_calling' => true,
        ]]]);
        // The closures reference the application, as those in a provider's boot() do.
        $app = $this->app;
        Pillion::resolveUserUsing(fn () => $app->bound('no_such_binding') ? 'x' : 'alice');
        Pillion::resolveTenantUsing(fn () => $app->bound('no_such_binding') ? 'x' : null);
    }

    private static function assertShowsNoSecret(mixed $thing, string $what): void
    {
        foreach (Dumps::forValue($thing) as $how => $shown) {
            self::assertNotSame('', $shown);
            self::assertStringNotContainsString(self::SECRET, $shown, "$what by $how");
        }
    }

    public function test_no_dump_shows_a_credential(): void
    {
        $server = Pillion::server('dice');
        $again = unserialize(serialize($server));
        $again->client();
        Pillion::call('get_time');
        $model = ['function_calling' => true, 'mcp' => true];
        $things = [
            'the manager' => Pillion::getFacadeRoot(),
            'that of another' => Pillion::forUser('bob')->forTenant('acme'),
            'the executor' => Pillion::executor(['approve' => fn () => $this->app->bound('x')]),
            'the tools of a model' => Pillion::forModel($model),
            'the tools of a configured model' => Pillion::forModel('demo'),
            'the tools of a given model' => Pillion::forModel(['api_key' => self::SECRET, 'function_calling' => true]),
            'what a model can do' => $this->app->make(ModelDirectory::class)->capabilities('demo'),
            'a chat' => Pillion::chat('demo'),
            'a conversation' => Pillion::forModel($model)->conversation([]),
            'the registry' => Pillion::registry(),
            'approvals' => Pillion::approvals(),
            'an approval' => Pillion::approvals()->pending(),
            'skipped entries' => Pillion::skipped(),
            'servers' => Pillion::servers(),
            'a client' => $server->client(),
            'a server of a job' => $again,
            'the entries' => $this->app->make(ServerDirectory::class)->all(),
            'the directory' => $this->app->make(ServerDirectory::class),
            'the tool of a class' => $this->app->make(ApplicationTools::class)->registry()->get('own'),
            'the sidecar' => Pillion::sidecar(),
            'a fake' => Pillion::fake(['weather' => 'sunny']),
        ];
        foreach ($things as $what => $thing) {
            self::assertShowsNoSecret($thing, $what);
        }
        self::assertStringNotContainsString(self::SECRET, (string) json_encode(Pillion::servers()));
    }

    public function test_the_database_of_approvals_is_not_shown(): void
    {
        config(['database.connections.sqlite.password' => self::SECRET]);
        $this->configure(['approvals.driver' => 'database']);
        self::assertShowsNoSecret(Pillion::approvals(), 'approvals');
    }

    public function test_objects_that_cannot_be_queued_throw(): void
    {
        $things = [
            'ServerConfig' => $this->app->make(ServerDirectory::class)->get('dice'),
            'Executor' => Pillion::executor(),
            'ModelTools' => Pillion::forModel('any'),
            'Approvals' => Pillion::approvals(),
        ];
        foreach ($things as $name => $thing) {
            $e = Expect::exception(Throwable::class, fn () => serialize($thing), failure: "$name was serialized");
            self::assertMatchesRegularExpression('/Pillion::|Executor. is not allowed/', $e->getMessage(), $name);
        }
    }

    public function test_the_manager_of_a_job_belongs_to_its_user(): void
    {
        $text = serialize(Pillion::getFacadeRoot());
        self::assertStringNotContainsString(self::SECRET, $text);
        Pillion::resolveUserUsing(fn () => 'the worker');
        $manager = unserialize($text);
        self::assertInstanceOf(PillionManager::class, $manager);
        self::assertSame('alice', $manager->server('dice')->user);
        self::assertSame('the worker', Pillion::server('dice')->user);
        $guest = unserialize(serialize(Pillion::forUser(null)));
        self::assertNull($guest->server('dice')->user);
    }

    public function test_the_trace_of_a_failed_model_request_shows_no_credential(): void
    {
        $ignored = ini_set('zend.exception_ignore_args', '0');
        $this->configure(['tools.aliases' => ['clock' => ['get_time']], 'chat.in' => 'nowhere']);
        $model = ['api_key' => self::SECRET, 'function_calling' => true];
        try {
            foreach (['forModel', 'chat'] as $method) {
                $e = Expect::exception(InvalidInputException::class, fn () => (new PillionManager())->$method($model));
                $frames = array_filter($e->getTrace(), fn (array $frame) => ($frame['class'] ?? '') === PillionManager::class && $frame['function'] === $method);
                self::assertCount(1, $frames);
                self::assertShowsNoSecret(array_column($frames, 'args'), $method);
            }
        } finally {
            ini_set('zend.exception_ignore_args', (string) $ignored);
        }
    }

    /** @return array<string, array{array<string, mixed>}> */
    public static function badEntries(): array
    {
        return [
            'an unknown key' => [['tokn' => 'x']],
            'a number' => [['prefix' => 5]],
            'names' => [['only' => 'x']],
            'an option that is none' => [['options' => ['nothing' => 1]]],
            'a header that is none' => [['options' => ['headers' => ["a\n" => 'x', 'X-Key' => self::SECRET]]]],
            'a URL that is none' => [['url' => 'no url with s3cret']],
        ];
    }

    /**
     * Checks what Ignition shows of an exception: the arguments in the stack trace.
     *
     * @dataProvider badEntries
     */
    #[DataProvider('badEntries')]
    public function test_the_trace_of_a_bad_entry_shows_no_credential(array $bad): void
    {
        $ignored = ini_set('zend.exception_ignore_args', '0');
        $this->configure(['servers.bad' => $bad + ['url' => 'https://app:s3cret@x.example/', 'token' => self::SECRET]]);
        try {
            Pillion::server('bad')->client();
            self::assertFalse(extension_loaded('pillion'), 'It was taken');
        } catch (Throwable $e) {
            self::assertStringNotContainsString(self::SECRET, $e->getMessage());
            // Frames of this test class contain the test's own values.
            $frames = array_filter($e->getTrace(), fn (array $frame) => str_starts_with($frame['class'] ?? '', 'Pillion\\')
                && !str_starts_with($frame['class'], 'Pillion\\Laravel\\Tests'));
            self::assertNotSame([], $frames);
            foreach ($frames as $frame) {
                self::assertShowsNoSecret($frame['args'] ?? [], $frame['class'] . '::' . $frame['function']);
            }
        } finally {
            ini_set('zend.exception_ignore_args', (string) $ignored);
        }
    }
}
