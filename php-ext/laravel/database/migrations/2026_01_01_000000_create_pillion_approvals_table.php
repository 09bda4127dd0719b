<?php

use Illuminate\Database\Migrations\Migration;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Support\Facades\Schema;

return new class extends Migration {
    public function up(): void
    {
        Schema::connection(config('pillion.approvals.connection'))
            ->create(config('pillion.approvals.table', 'pillion_approvals'), function (Blueprint $table): void {
                // A digest of the tenant and the ID: the same ID may exist in two tenants, and the database
                // compares a digest exactly with any collation.
                $table->string('storage_key', 64)->primary();
                $table->string('id', 64);
                $table->string('tenant')->nullable()->index();
                $table->string('tool', 128);
                $table->longText('arguments');
                $table->longText('approved_arguments')->nullable();
                $table->string('user')->nullable()->index();
                $table->string('status', 16)->index();
                // Unix times do not depend on the time zone of the database.
                $table->unsignedBigInteger('created_at');
                $table->unsignedBigInteger('expires_at')->index();
                $table->string('decided_by')->nullable();
                $table->unsignedBigInteger('decided_at')->nullable();
            });
    }

    public function down(): void
    {
        Schema::connection(config('pillion.approvals.connection'))
            ->dropIfExists(config('pillion.approvals.table', 'pillion_approvals'));
    }
};
